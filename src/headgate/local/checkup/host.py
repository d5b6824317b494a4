"""Whether servers can listen where they would."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from headgate.core.errors import cause_of
from headgate.local.checkup.finding import Finding, note_finding, ok_finding, problem_finding
from headgate.local.jars import cache_directory
from headgate.local.machine import LOOPBACK, free_ports, problem_with_port

FIRST_FREE_FOR_ALL = 1024


def check_ports(ports: Sequence[int], address_of: Callable[[str], str] = socket.gethostbyname) -> Iterator[Finding]:
    try:
        free_ports(1)
    except OSError as error:
        text = f"no server can listen on {LOOPBACK}: {error}."
        yield problem_finding("ports", text, "bring the loopback interface up: ip link set lo up")
        return
    try:
        if (found := address_of("localhost")) != LOOPBACK:
            yield note_finding(
                "ports", f"localhost is {found}, not {LOOPBACK}.", f"put '{LOOPBACK} localhost' into /etc/hosts"
            )
    except OSError:
        yield problem_finding("ports", "localhost has no address.", f"put '{LOOPBACK} localhost' into /etc/hosts")
    for port in ports:
        yield _port(port)


def _port(port: int) -> Finding:
    problem = problem_with_port(port)
    if problem is None:
        return ok_finding("ports", f"port {port} of {LOOPBACK} is free.")
    if port < FIRST_FREE_FOR_ALL and "permission" in problem:
        return problem_finding("ports", f"port {port} needs rights that this user lacks.", "take a port from 1024 on")
    remedy = "stop what listens there, or take another port; if that is Headgate's service, all is well"
    return note_finding("ports", f"port {port} of {LOOPBACK} cannot be taken: {problem}.", remedy)


LEAST_FREE_BYTES = 1_000_000_000
LEAST_FILES = 1024


def check_permissions(
    temporary: Path | None = None, cache: Path | None = None, secrets: Sequence[Path] = ()
) -> Iterator[Finding]:
    """``secrets`` are files that only their owner should be able to read."""
    folder = Path(tempfile.gettempdir()) if temporary is None else temporary
    problems = [*_temporary(folder), *_cache(cache or cache_directory()), *_limits(), *map(_secret, secrets)]
    found = [problem for problem in problems if problem is not None]
    yield from found or [ok_finding("permissions", f"{folder} and the cache can be written; limits suffice.")]


def _temporary(folder: Path) -> Iterator[Finding]:
    remedy = "set TMPDIR to a folder that can be written and run from"
    try:
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            script = Path(inside, "run")
            script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
            subprocess.run([str(script)], check=True, timeout=30)
    except PermissionError as error:
        if Path(str(error.filename)).name == "run":
            text = f"nothing may be run from {folder} (noexec); Spark's libraries are unpacked there."
            yield problem_finding("permissions", text, remedy)
        else:
            yield problem_finding("permissions", f"{folder} cannot be written: {cause_of(error)}.", remedy)
    except (OSError, subprocess.SubprocessError) as error:
        yield problem_finding("permissions", f"{folder} cannot be used for temporary files: {cause_of(error)}.", remedy)
    else:
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_BYTES:
            yield note_finding(
                "permissions", f"{folder} has {free / 1e9:.1f} GB left.", "make room, or set TMPDIR elsewhere"
            )


def _cache(folder: Path) -> Iterator[Finding]:
    standing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(standing, os.W_OK | os.X_OK):
        text = f"the cache {folder} cannot be written; jars for Kafka cannot be stored."
        yield note_finding("permissions", text, "set HEADGATE_CACHE to a folder of your own")


def _limits() -> Iterator[Finding]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < LEAST_FILES:
        text = f"a process may open {files} files; a driver and a service need {LEAST_FILES}."
        yield note_finding("permissions", text, f"ulimit -n {LEAST_FILES}")


def _secret(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return problem_finding(
            "permissions", f"{path} cannot be read: {cause_of(error)}.", "look at its path and its owner"
        )
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        text = f"{path} holds a secret, and others may read it ({stat.S_IMODE(mode):04o})."
        return note_finding("permissions", text, f"chmod 600 {path}")
    return None


MOST_SKEW_S = 5.0
SLACK_S = 86400.0
_REMEDY = "set the clock, best by a time service: timedatectl set-ntp true"


def check_clock(
    now: Callable[[], float] = time.time, service_date: str | None = None, installed: Path = Path(__file__)
) -> Iterator[Finding]:
    at_s, made_s = now(), installed.stat().st_mtime
    time_text = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    if at_s < made_s - SLACK_S:
        made = datetime.fromtimestamp(made_s, UTC).strftime("%Y-%m-%d")
        yield problem_finding(
            "clock", f"the clock says {time_text} UTC, but Headgate was installed on {made}.", _REMEDY
        )
        return
    yield ok_finding("clock", f"the clock says {time_text} UTC.")
    if service_date is None:
        return
    try:
        skew_s = at_s - parsedate_to_datetime(service_date).timestamp()
    except (TypeError, ValueError):
        yield note_finding("clock", f"the service tells a time that is not understood: {service_date!r}.", _REMEDY)
        return
    if abs(skew_s) > MOST_SKEW_S:
        way = "ahead of" if skew_s > 0 else "behind"
        text = f"this clock is {abs(skew_s):.0f} s {way} the service's; agents report ages, so scaling continues."
        yield note_finding("clock", text, _REMEDY)
    else:
        yield ok_finding("clock", "it agrees with the service's.")
