"""Whether servers can listen where they would."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence

from headgate.local.checkup.finding import Finding, fine, odd, wrong
from headgate.local.machine import LOOPBACK, free_ports, problem_with_port

FIRST_FREE_FOR_ALL = 1024


def check_ports(ports: Sequence[int], address_of: Callable[[str], str] = socket.gethostbyname) -> Iterator[Finding]:
    try:
        free_ports(1)
    except OSError as error:
        text = f"no server can listen on {LOOPBACK}: {error}."
        yield wrong("ports", text, "bring the loopback interface up: ip link set lo up")
        return
    try:
        if (found := address_of("localhost")) != LOOPBACK:
            yield odd("ports", f"localhost is {found}, not {LOOPBACK}.", f"put '{LOOPBACK} localhost' into /etc/hosts")
    except OSError:
        yield wrong("ports", "localhost has no address.", f"put '{LOOPBACK} localhost' into /etc/hosts")
    for port in ports:
        yield _port(port)


def _port(port: int) -> Finding:
    problem = problem_with_port(port)
    if problem is None:
        return fine("ports", f"port {port} of {LOOPBACK} is free.")
    if port < FIRST_FREE_FOR_ALL and "permission" in problem:
        return wrong("ports", f"port {port} needs rights that this user lacks.", "take a port from 1024 on")
    remedy = "stop what listens there, or take another port; if that is Headgate's service, all is well"
    return odd("ports", f"port {port} of {LOOPBACK} cannot be taken: {problem}.", remedy)
