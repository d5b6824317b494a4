"""Connections that never send their requests, too many of them, and few files: others are answered all the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from headgate.local.machine import LOOPBACK, free_ports
from headgate.service import connections
from headgate.service.connections import Connections, Progress
from headgate.service.serving import ApiServer
from tests.service.services import served

REPORT = {"version": 1, "agent": "a", "instances": {"planned": 1, "requested": 1, "ready": 1}}
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def half_open(port: int, count: int, text: bytes = HALF) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            client = stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=10.0))
            client.sendall(text)
            opened.append(client)
        yield opened


def within(seconds: float, is_so: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def port_of(server: ApiServer) -> int:
    return int(server.url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress.HEAD, b""),
        (Progress.HEAD, HALF),
        (Progress.BODY, b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nabc"),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_does_not_come_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, progress: Progress, text: bytes
) -> None:
    monkeypatch.setitem(connections._WITHIN_S, progress, 0.2)
    with served() as here, ApiServer(here.app) as server, half_open(port_of(server), 1, text) as (client,):
        began_s = time.monotonic()
        while client.recv(1000):
            pass
        assert time.monotonic() - began_s < 5.0


def test_a_stream_of_events_and_a_connection_between_two_requests_are_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for progress in (Progress.HEAD, Progress.BODY):
        monkeypatch.setitem(connections._WITHIN_S, progress, 0.2)
    with (
        served() as here,
        ApiServer(here.app) as server,
        httpx.Client() as client,
        client.stream("GET", f"{server.url}/v1/events") as events,
    ):
        lines = events.iter_lines()
        assert next(lines) == ": listening"
        assert client.get(f"{server.url}/login").status_code == 200
        time.sleep(2.5)
        assert client.get(f"{server.url}/login").status_code == 200
        assert server.connections.refused == 0
        here.service.hub.publish(1.0, "event", "clicks", {})
        assert any("clicks" in line for line in lines)
        here.service.hub.close()


def test_too_many_connections_are_closed_the_oldest_without_a_request_first() -> None:
    with served() as here, ApiServer(here.app) as server:
        server.connections.most = 40
        with httpx.Client() as client, half_open(port_of(server), 100):
            for _ in range(3):
                assert client.get(f"{server.url}/login").status_code == 200
            assert len(server.connections) <= 40 + connections.MOST_CLOSING
        assert within(5.0, lambda: len(server.connections) <= 1)


def test_one_client_may_have_its_share_of_the_connections_only() -> None:
    open_sockets: list[socket.socket] = []
    limited = Connections(most=20, now=lambda: float(len(open_sockets)))

    def connect(address: str) -> bool:
        ours, other = socket.socketpair()
        open_sockets.extend((ours, other))
        is_admitted = limited.admit(ours, address)
        if is_admitted:
            limited.note(ours.fileno(), Progress.ANSWER)
        return is_admitted

    try:
        assert [connect("10.0.0.1") for _ in range(12)] == [True] * 10 + [False] * 2
        assert [connect(f"10.0.1.{number}") for number in range(12)] == [True] * 10 + [False] * 2
        assert limited.refused == 4
        open_sockets[1].close()
        open_sockets[0].close()
        assert connect("10.0.0.2"), "one that was closed leaves room"
    finally:
        for opened in open_sockets:
            opened.close()


FILE = """\
version: 1
store: sqlite:///{folder}/service.db
listen: 127.0.0.1:{port}
jobs:
  clicks:
    objective: latency p95 < 10s
    operators: {{count: {{instances: [1, 4]}}}}
"""


def test_half_open_connections_do_not_use_up_the_files_of_the_service(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file, log = tmp_path / "headgate.yaml", tmp_path / "log"
    file.write_text(FILE.format(folder=tmp_path, port=port))
    headgate = f"{sys.executable} -m headgate"
    made = subprocess.run(
        [*headgate.split(), "token", "make", "driver", "--scope", "agent", "--job", "clicks", "--config", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    url = f"http://{LOOPBACK}:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"ulimit -n 128; exec {headgate} serve {file}"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with httpx.Client(headers=headers, timeout=10.0) as client:

            def answers() -> bool:
                try:
                    return client.get(f"{url}/healthz").status_code == 200
                except httpx.HTTPError:
                    return False

            assert within(180.0, answers), log.read_text()
            with half_open(port, 150):
                used_s = cpu_s(process.pid)
                for _ in range(10):
                    answer = client.post(f"{url}/v1/jobs/clicks/operators/count/reports", json=REPORT)
                    assert answer.status_code == 200
                    time.sleep(0.1)
                assert cpu_s(process.pid) - used_s < 0.8, "it turns in circles"
            assert log.stat().st_size < 100_000
    finally:
        process.terminate()
        process.wait(30)


def cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
