"""headgate agent: an engine in another process joins a service, and is brought to the size that is decided."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from headgate.core.objective import parse_objective
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from tests.cli.commands import refused
from tests.engines.adaptors import running_example
from tests.engines.flink.small_job import SmallJob, WallClock, played_by
from tests.engines.flink.stand_in import standing_in

CLICKS = JobSpec(
    "clicks",
    (OperatorSpec("count"),),
    parse_objective("latency p95 < 10s"),
    policy="static",
    settings={"instances": 5},
    interval_s=1.0,
)
AGENT = ("agent", "http://127.0.0.1:9", "--service", "http://127.0.0.1:9", "--job", "clicks", "--operator", "count")


def await_that(holds: Callable[[], bool], within_s: float = 120.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s, "it did not come about"
        time.sleep(0.1)


def test_the_engine_of_the_guide_joins_is_scaled_and_leaves(tmp_path: Path) -> None:
    with ExitStack() as stack:
        adaptor = stack.enter_context(running_example())
        service = stack.enter_context(Service(ServiceConfig((CLICKS,), "sqlite://"), open_store("sqlite://")))
        server = stack.enter_context(ApiServer(make_api(service)))
        service.run()
        token = tmp_path / "token"
        token.write_text(service.store.tokens.make("engine", {Scope.AGENT}))
        arguments = [adaptor, "--service", server.url, "--job", "clicks", "--operator", "count"]
        agent = subprocess.Popen([sys.executable, "-m", "headgate", "agent", *arguments, "--token-file", str(token)])
        try:
            await_that(lambda: httpx.get(f"{adaptor}/observe").json()["instances"]["planned"] == 5)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(timeout=60) == 0
            kinds = ["agent-joined", "agent-left"]
            journal = service.fleet.job("clicks").journal
            await_that(lambda: [event.kind for event in journal.events() if event.kind in kinds] == kinds)
        finally:
            agent.kill()
            agent.wait()
        assert httpx.get(f"{adaptor}/observe").json()["instances"]["planned"] == 5, "it keeps its size"


def test_a_flink_job_joins_with_all_its_operators_and_is_rescaled_once(tmp_path: Path) -> None:
    names = ("clicks", "slow", "count")
    spec = JobSpec(
        "clicks",
        tuple(OperatorSpec(name) for name in names),
        parse_objective("latency p95 < 10s"),
        (("clicks", "slow"), ("slow", "count")),
        policy="static",
        settings={"instances": 2},
        interval_s=1.0,
    )
    with ExitStack() as stack:
        stand_in = stack.enter_context(standing_in())
        job = SmallJob(WallClock())
        target = played_by(job, stand_in)
        service = stack.enter_context(Service(ServiceConfig((spec,), "sqlite://"), open_store("sqlite://")))
        server = stack.enter_context(ApiServer(make_api(service)))
        service.run()
        token = tmp_path / "token"
        token.write_text(service.store.tokens.make("engine", {Scope.AGENT}))
        arguments = [
            target,
            "--engine",
            "flink",
            "--service",
            server.url,
            "--job",
            "clicks",
            "--token-file",
            str(token),
        ]
        agent = subprocess.Popen([sys.executable, "-m", "headgate", "agent", *arguments])
        try:
            await_that(lambda: set(job.sizes.values()) == {2})
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(timeout=60) == 0
        finally:
            agent.kill()
            agent.wait()
        assert service.fleet.job("clicks").observation is not None
        # All three in one request, unless a decision fell between two reports.
        assert len(stand_in.changes) <= 2
        assert job.state == "RUNNING"


def test_an_engine_stands_for_all_its_operators() -> None:
    assert "leave --operator and --fallback out" in refused(*AGENT, "--engine", "flink")
    assert "write --operator NAME, or --engine NAME" in refused(*AGENT[:-2])


def test_without_a_token_nothing_is_requested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADGATE_TOKEN", raising=False)
    assert refused(*AGENT) == "there is no token: give a file of it by --token-file, or set HEADGATE_TOKEN."
    missing = tmp_path / "token"
    assert f"--token-file {missing} cannot be read" in refused(*AGENT, "--token-file", str(missing))


def test_a_fallback_without_an_objective_is_refused() -> None:
    assert "fallback 'reactive' needs an objective" in refused(*AGENT, "--fallback", "reactive")
