"""Whatever is wrong with Flink is one sentence, and never a change of size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.core.errors import EngineError, EngineGoneError, InputError, UnknownNameError
from headgate.core.types import Decision, Outcome, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.rest import FlinkRefusedError, FlinkRest, UnknownJobError
from headgate.local.machine import LOOPBACK, free_ports
from headgate.runtime.autoscaler import autoscale_engine
from headgate.testing.clock import FakeClock
from tests.engines.flink.small_job import SmallJob, played_by
from tests.engines.flink.stand_in import StandIn, recorded, standing_in

GROW = Decision(0.0, "test", {"slow": Verdict("slow", 1, 3, 3, "test", "a test asks for it")})


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in() as stand_in:
        yield stand_in


@pytest.fixture
def engine(stand_in: StandIn) -> FlinkEngine:
    """One whose job was at work until now."""
    job = SmallJob(FakeClock(1_000_000.0))
    engine = FlinkEngine(played_by(job, stand_in), job.clock.now, answer_within_s=0.2, sleep=lambda seconds: None)
    engine.observe()
    return engine


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8081", "ftp://host", "http://", "", "http://127.0.0.1:99999", "http://host:x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(
        InputError, match=r"Flink address .* is not usable; one such as http://127.0.0.1:8081 is needed"
    ):
        FlinkRest(url)


def test_nobody_at_an_address_is_reported() -> None:
    (port,) = free_ports(1)
    with pytest.raises(EngineError, match=rf"^Flink at http://{LOOPBACK}:{port} does not answer: .*refused\.$"):
        FlinkEngine(f"http://{LOOPBACK}:{port}#clicks")


def test_a_misspelt_job_is_answered_with_the_closest(stand_in: StandIn) -> None:
    played_by(SmallJob(FakeClock()), stand_in)
    with pytest.raises(UnknownNameError, match=r"unknown job at http://.* 'click', did you mean 'clicks'\?"):
        FlinkEngine(f"{stand_in.url}#click")


def test_a_name_that_two_jobs_have_is_requested_to_be_a_number(stand_in: StandIn) -> None:
    twice = [{"jid": jid, "name": "clicks", "state": "RUNNING", "start-time": 0} for jid in ("1" * 32, "2" * 32)]
    stand_in.answers = {"/jobs/overview": {"jobs": twice}}
    with pytest.raises(InputError, match=r"job 'clicks' runs 2 times at .*; give one of 1+, 2+"):
        FlinkEngine(f"{stand_in.url}#clicks")


def test_a_job_that_waits_for_its_first_slots_has_not_started(stand_in: StandIn) -> None:
    _, (look,) = recorded("waiting_for_slots")
    stand_in.answers = look
    with pytest.raises(EngineError, match="job 'fork' has not started yet: it is CREATED and has no plan"):
        FlinkEngine(f"{stand_in.url}#fork")


NONSENSE = (
    (200, b"<html>a proxy's page</html>"),
    (200, b""),
    (200, b"[]"),
    (200, b'{"jid": 5}'),
    (200, b'{"jobs": [{"jid": "x"}]}'),
)


@pytest.mark.parametrize(("status", "body"), NONSENSE)
def test_nonsense_is_one_sentence_and_changes_nothing(
    engine: FlinkEngine, stand_in: StandIn, status: int, body: bytes
) -> None:
    stand_in.fault = status, body
    for ask in (engine.observe, lambda: engine.apply(GROW)):
        with pytest.raises(
            EngineError, match=r"cannot be understood: its answer to GET /jobs/\w+ is not what"
        ) as reported:
            ask()
        assert "\n" not in str(reported.value)
    assert stand_in.changes == []


FAILURES = (
    (
        500,
        b'{"errors": ["x.y.SomeException: out of memory\\n\\tat x.y(Z.java:1)"]}',
        "could not do GET .*: out of memory",
    ),
    (
        500,
        b'{"errors": ["Internal server error.", "<Exception on server side:\\nx.YException: out of memory\\n\\tat z"]}',
        "could not do GET .*: out of memory",
    ),
    (500, b'{"errors": ["Internal server error."]}', "could not do GET .*: status 500"),
    (503, b"", "could not do GET .*: status 503"),
    (400, b'{"errors": []}', "refused GET .*: status 400"),
    (302, b"", "could not do GET .*: status 302"),
)


@pytest.mark.parametrize(("status", "body", "reported"), FAILURES)
def test_a_failure_is_reported_without_javas_calls(
    engine: FlinkEngine, stand_in: StandIn, status: int, body: bytes, reported: str
) -> None:
    stand_in.fault = status, body
    with pytest.raises(EngineError, match=reported):
        engine.observe()


def test_flink_that_hangs_is_not_waited_for(engine: FlinkEngine, stand_in: StandIn) -> None:
    stand_in.hangs.set()
    began_s = time.monotonic()
    for ask in (engine.observe, lambda: engine.apply(GROW)):
        with pytest.raises(EngineError, match=r"does not answer: no answer within 0.2 s\.$"):
            ask()
    assert time.monotonic() - began_s < 3
    assert stand_in.changes == []


def test_flink_that_is_away_is_not_a_job_that_is_gone(engine: FlinkEngine, stand_in: StandIn) -> None:
    stand_in.fault = 503, b""
    with pytest.raises(EngineError) as reported:
        engine.observe()
    assert not isinstance(reported.value, EngineGoneError)
    stand_in.fault = None
    assert engine.observe().instances["slow"].planned == 1


def test_a_size_that_flink_refuses_is_not_planned(engine: FlinkEngine, stand_in: StandIn) -> None:
    plain = stand_in.answered_by
    assert plain is not None

    def refusing(method: str, path: str, body: Any) -> Any:
        if method == "PUT":
            return 400, {"errors": ["x.RestHandlerException: The newly requested parallelism 3 is too large.\n\tat …"]}
        return plain(method, path, body)

    stand_in.answered_by = refusing
    with pytest.raises(FlinkRefusedError, match=r"refused PUT .*: The newly requested parallelism 3 is too large\.$"):
        engine.apply(GROW)
    assert engine.observe().instances["slow"].planned == 1


def test_what_is_not_known_is_reported_from_what_failed(stand_in: StandIn) -> None:
    rest = FlinkRest(stand_in.url)
    with pytest.raises(UnknownJobError, match="does not know what was requested"):
        rest.job("0" * 32)


def test_a_loop_holds_while_flink_is_away_and_continues_after(stand_in: StandIn) -> None:
    job = SmallJob(FakeClock(1_000_000.0))
    engine = FlinkEngine(played_by(job, stand_in), job.clock.now, sleep=lambda seconds: None)
    running = autoscale_engine(engine, policy="static", clock=job.clock, interval="5s", instances=(1, 4))
    loop = running.loop
    running.stop()
    assert loop.history.instances("slow") is not None
    assert stand_in.changes == []


def test_one_metric_that_went_away_costs_one_reading(stand_in: StandIn) -> None:
    """A single name that Flink does not know empties the whole answer."""
    job = SmallJob(FakeClock(1_000_000.0))
    target = played_by(job, stand_in)
    engine = FlinkEngine(target, job.clock.now, sleep=lambda seconds: None)
    assert engine.observe().samples["clicks"].backlog == 0
    plain, names = job.answer, {"Source__clicks.numRecordsOut"}

    def fewer(method: str, path: str, body: Any) -> Any:
        reported = plain(method, path, body)
        return (
            [message for message in reported if message["id"] in names]
            if path.endswith("/subtasks/metrics")
            else reported
        )

    stand_in.answered_by = fewer
    job.clock.advance(5)
    assert engine.observe().samples["clicks"].arrived is None
    job.clock.advance(5)
    sample = engine.observe().samples["clicks"]
    assert sample.done is not None
    assert sample.done > 500


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED])
def test_it_continues_as_soon_as_flink_does(engine: FlinkEngine, stand_in: StandIn, outcome: Outcome) -> None:
    stand_in.fault = 200, b"nonsense"
    with pytest.raises(EngineError):
        engine.apply(GROW)
    stand_in.fault = None
    assert engine.apply(GROW).outcome is outcome
    assert len(stand_in.changes) == 1


def test_an_engine_that_cannot_be_opened_leaves_no_connection_open(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(FlinkRest, "close", lambda self: closed.append(self.url))
    job = SmallJob(FakeClock(1_000_000.0))
    played_by(job, stand_in)
    with pytest.raises(UnknownNameError):
        FlinkEngine(f"{stand_in.url}#other", job.clock.now)
    assert closed == [stand_in.url]
