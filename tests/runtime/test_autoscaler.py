"""The live autoscaler: a thread that ends when it should, and never with more noise than needed."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.request import urlopen

import pytest

from headgate.core.errors import EngineGoneError, InputError, StateError
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import (
    JSON,
    Answer,
    Decision,
    Instances,
    Instant,
    Observation,
    Outcome,
    Proposal,
    Receipt,
    Sample,
)
from headgate.core.window import Window
from headgate.journal.contract import state_key
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import Context, PolicyBase
from headgate.policies.frame.settings import Settings
from headgate.runtime.assembly import LoopSpec, open_loop, preview_policy, wire
from headgate.runtime.autoscaler import Autoscaler, autoscale
from headgate.runtime.exposition.job_figures import expose
from headgate.testing import FakeClock

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession


class CountedEngine:
    """An engine that can be observed a number of times; then it is gone, or says that it has been seen enough."""

    def __init__(self, clock: FakeClock, times: int, *, gone: bool) -> None:
        self._clock = clock
        self._times = times
        self._gone = gone
        self.seen_s: list[float] = []
        self.enough = threading.Event()
        self.closed = 0

    def topology(self) -> Topology:
        return Topology.single()

    def observe(self) -> Observation:
        now = self._clock.now()
        if len(self.seen_s) >= self._times:
            if self._gone:
                raise EngineGoneError("the Spark session has stopped.")
            self.enough.set()
        self.seen_s.append(now)
        return Observation(now, {"job": Sample("job", now, latency_s=1.0)}, {"job": Instances(1, 1, 1)})

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(self._clock.now(), {"job": Answer(Outcome.UNCHANGED, 1)})

    def close(self) -> None:
        self.closed += 1
        if self._gone:
            raise EngineGoneError("the Spark session has stopped.")


def autoscaler(engine: CountedEngine, clock: FakeClock, journal: MemoryJournal, interval_s: float = 5.0) -> Autoscaler:
    policy = preview_policy("static", parse_objective("latency < 10s"))
    loop = wire(engine, policy, clock, journal=journal, engine_name="counted")
    return Autoscaler(loop, interval_s)


def test_it_ends_by_itself_when_the_engine_is_gone() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 3, gone=True)
    running = autoscaler(engine, clock, journal).start()
    running.thread.join(10)
    assert not running.is_alive
    assert engine.seen_s == [0.0, 5.0, 10.0]
    running.stop()
    assert [event.kind for event in journal.events()] == ["started", "engine-gone"]


def test_it_is_stopped_once_however_often_stop_is_called() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 2, gone=False)
    with autoscaler(engine, clock, journal).start() as running:
        assert engine.enough.wait(10)
        running.stop()
        assert not running.is_alive
    assert engine.closed == 1
    assert [event.kind for event in journal.events()] == ["started", "stopped"]


def test_an_event_after_its_end_is_no_fault_of_its_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, objective = FakeClock(), parse_objective("latency < 10s")
    spec = LoopSpec(objective=objective, policy="static", journal=tmp_path / "run.sqlite")
    assembled = open_loop(spec, CountedEngine(clock, 1, gone=True), clock, engine_name="counted")
    loop = assembled.loop
    running = Autoscaler(loop, 5.0, assembled).start()
    running.thread.join(10)
    loop.note("query-interrupted", "its end was requested")  # By the supervisor of the query, on a thread of its own.
    assert loop.journal_fault is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_cycle_that_took_too_long_is_not_made_up_for() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 3, gone=True)
    slow = autoscaler(engine, clock, journal, interval_s=5.0)
    slow.watch(lambda seen, _: clock.advance(12.0) if seen is not None and seen.at_s == 0 else None)
    slow.start().thread.join(10)
    assert engine.seen_s == [0.0, 15.0, 20.0], "the next cycles come at their regular times"


def test_prometheus_can_read_it_on_loopback_until_it_ends() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 2, gone=False)
    made = autoscaler(engine, clock, journal)
    made.add_exposure(expose(made.loop, 5.0, journal, port=0))
    url = made.metrics_url
    assert url is not None
    with made.start():
        assert engine.enough.wait(10)
        with urlopen(url, timeout=10) as page:
            assert b'headgate_loop_interval_seconds{job="job"} 5.0' in page.read()
    with pytest.raises(OSError, match="refused"):
        urlopen(url, timeout=10)


def test_learned_state_is_saved_for_the_next_run_of_the_same_journal() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 1, gone=True)
    first = autoscaler(engine, clock, journal).start()
    first.thread.join(10)
    first.stop()
    assert journal.load_state(journal.state_keys()[0]) == {"policy": "static", "version": 1}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"policy": "reactive", "version": 0}, "saved state is of policy 'reactive' version 0"),
        ({"policy": "reactive", "version": 1, "learned": {"job": ["many"]}}, "is damaged"),
    ],
)
def test_learned_state_that_no_longer_fits_is_refused_and_the_job_starts_without_it(
    state: dict[str, JSON], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock, journal = FakeClock(), MemoryJournal()
    policy = preview_policy("reactive", parse_objective("latency < 10s"))
    journal.save_state(state_key("job", ("job",), policy), state)
    fresh = policy.snapshot()
    engine = CountedEngine(clock, 1, gone=False)
    loop = wire(engine, policy, clock, journal=journal, engine_name="counted")
    (event,) = journal.events(run=1)
    assert event.kind == "state-refused"
    assert message in event.detail
    assert message in caplog.text
    assert policy.snapshot() == fresh
    assert loop.tick() is not None


class Halfway(PolicyBase[Settings]):
    """Finds out that its state is damaged when it has taken up a part of it."""

    name = "halfway"
    learned = 0

    def decide(self, now: Instant, window: Window) -> Proposal:
        return Proposal({})

    def _state(self) -> dict[str, JSON]:
        return {"learned": self.learned, "more": None}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self.learned = state["learned"]
        state["more"]


def test_state_that_turns_out_to_be_damaged_halfway_is_refused_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "headgate")
    clock, journal = FakeClock(), MemoryJournal()
    policy = Halfway(Settings(), Context(parse_objective("latency < 10s"), Topology.single()))
    journal.save_state(state_key("job", ("job",), policy), {"policy": "halfway", "version": 1, "learned": 7})
    engine = CountedEngine(clock, 1, gone=False)
    wire(engine, policy, clock, journal=journal, engine_name="counted")
    assert [event.kind for event in journal.events()] == ["state-refused"]
    assert policy.learned == 0


def test_a_state_file_that_does_not_fit_is_refused_before_the_session_is_touched(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    file.write_text(json.dumps({"policy": "reactive", "version": 0}))
    with pytest.raises(StateError, match="version 0"):
        autoscale(cast("SparkSession", None), policy="reactive", state=file)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"executors": 5}, "executors 5 is not allowed; give the fewest and the most, as (1, 8)."),
        ({"executors": (1, 2, 3)}, "executors (1, 2, 3) is not allowed; give the fewest and the most, as (1, 8)."),
        ({"executors": ("1", 8)}, "min_instances '1' is not allowed; it must be a whole number."),
        ({"executors": (1, 2.5)}, "max_instances 2.5 is not allowed; it must be a whole number."),
        ({}, "None cannot be scaled; give this driver's own SparkSession or a Streaming"),
    ],
)
def test_what_cannot_be_scaled_is_refused_in_a_sentence(wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        autoscale(cast("SparkSession", None), **wrong)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("breaks_s", "recalled_s"),
    [
        ((60.0,), [0.0, 5.0]),
        ((60.5,), []),
        ((60.0, 60.0), [0.0, 5.0, 65.0, 70.0]),
        ((60.5, 60.0), [65.5, 70.5]),
        ((60.0, 60.5), []),
    ],
)
def test_what_was_seen_is_recalled_back_to_the_last_break_of_more_than_a_minute(
    breaks_s: tuple[float, ...], recalled_s: list[float]
) -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 100, gone=False)
    loop = autoscaler(engine, clock, journal).loop
    for break_s in breaks_s:
        loop.tick()
        clock.advance(5.0)
        loop.tick()
        clock.advance(break_s)
        loop = autoscaler(engine, clock, journal).loop
    assert [seen.at_s for seen in loop.history.observations] == recalled_s
    assert [decided.at_s for decided in loop.history.decisions] == recalled_s


@pytest.mark.parametrize("interval_s", [0.0, -1.0])
def test_an_interval_is_above_zero(interval_s: float) -> None:
    clock = FakeClock()
    with pytest.raises(InputError, match="interval"):
        autoscaler(CountedEngine(clock, 1, gone=True), clock, MemoryJournal(), interval_s)
