"""A query of Prometheus as a metric: fresh answers count, and nobody waits for one but the first time."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headgate.core.errors import EngineError, InputError
from headgate.core.types import Instances, Observation, Sample
from headgate.local.machine import LOOPBACK
from headgate.runtime.loop import MetricCollector
from headgate.runtime.prometheus import Prometheus
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.testing.clock import FakeClock
from headgate.workloads import parse_workload
from tests.http_receiver import HttpReceiver


def vector(*values: float) -> bytes:
    series = [{"metric": {}, "value": [0, str(value)]} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


def until(done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_the_operator_and_the_token_go_with_the_query(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    with HttpReceiver(lambda *_: (200, vector(0.25, 0.75))) as server:
        cpu = Prometheus('cpu{pod=~"$operator.*"}', url=f"{server.url}/prom", token_file=token)
        assert cpu("enrich") == [0.25, 0.75]
    path, _, headers = server.received[0]
    assert urlsplit(path).path == "/prom/api/v1/query"
    assert parse_qs(urlsplit(path).query)["query"] == ['cpu{pod=~"enrich.*"}']
    assert headers["Authorization"] == "Bearer secret"
    assert "secret" not in repr(cpu)


def test_it_is_queried_no_more_often_than_set_and_an_old_answer_does_not_count() -> None:
    clock, answers = FakeClock(), [(200, vector(1.0)), (200, vector(2.0))]
    with HttpReceiver(lambda *_: answers.pop(0) if answers else (503, b"gone")) as server:
        source = Prometheus("x", url=server.url, every=5.0, stale_after=60.0, now=clock.now)
        assert source("job") == [1.0]
        clock.advance(4.0)
        assert source("job") == [1.0]
        assert len(server.received) == 1
        clock.advance(1.0)
        until(lambda: source("job") == [2.0])
        clock.advance(61.0)
        assert source("job") is None
        with pytest.raises(EngineError, match="refused 'x': gone"):
            until(lambda: source("job") is not None)


def test_a_prometheus_that_is_away_costs_the_reading_and_no_more() -> None:
    with HttpReceiver() as server:
        url = server.url
    with pytest.raises(
        EngineError, match=r"Prometheus at http://127\.0\.0\.1:\d+ cannot be queried: connection refused"
    ):
        Prometheus("x", url=url)("job")


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"<html>", "is not Prometheus"), (b'{"data": {"resultType": "matrix", "result": [{}]}}', "not a number")],
)
def test_an_invalid_answer_is_reported(body: bytes, message: str) -> None:
    with HttpReceiver(lambda *_: (200, body)) as server, pytest.raises(EngineError, match=message):
        Prometheus("x", url=server.url)("job")


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """The URL of a server that sends these bytes, one after the other."""
    waiting = list(answers)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(10_000)
            self.request.sendall(waiting.pop(0))

    with socketserver.TCPServer((LOOPBACK, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
        server.shutdown()


def test_a_redirect_is_not_followed_because_the_token_would_go_along(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with HttpReceiver(lambda *_: (200, vector(1.0))) as other:
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n"
        with answering(redirect.encode()) as url, pytest.raises(EngineError, match=f"redirects to {other.url}"):
            Prometheus("x", url=url, token_file=tmp_path / "token")("job")
        assert not other.received


@pytest.mark.parametrize("garbled", [b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"])
def test_a_garbled_answer_costs_one_query_and_none_after_it(garbled: bytes) -> None:
    clock, body = FakeClock(), vector(1.0)
    right = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with answering(garbled, right) as url:
        source = Prometheus("x", url=url, now=clock.now)
        with pytest.raises(EngineError):
            source("job")
        clock.advance(5.0)
        with suppress(EngineError):
            source("job")

        def is_right() -> bool:
            with suppress(EngineError):
                return source("job") == [1.0]
            return False

        until(is_right)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": " "}, "query of Prometheus is empty"),
        ({"query": "x", "url": "ftp://a"}, "url 'ftp://a' of Prometheus is not usable"),
        ({"query": "x", "url": "http://a/?b=c"}, "is not usable"),
        ({"query": "x", "every": "0s"}, "every '0s' is not allowed; it must be above 0"),
    ],
)
def test_an_unusable_query_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Prometheus(**arguments)


def test_under_the_name_of_a_reading_it_counts_instead_of_the_engines() -> None:
    engine = SimulatedEngine(QueueNetwork(parse_workload("constant:10"), 10.0))
    with HttpReceiver(lambda *_: (200, vector(7.0))) as server:
        collector = MetricCollector(engine, {"backlog": Prometheus("lag", url=server.url)})
        seen = Observation(0.0, {"job": Sample("job", 0.0, backlog=1.0)}, {"job": Instances(1, 1, 1)})
        assert collector.completed(seen).samples["job"].backlog == 7.0
    gone = MetricCollector(engine, {"backlog": lambda operator: None})
    assert gone.completed(seen).samples["job"].backlog is None
