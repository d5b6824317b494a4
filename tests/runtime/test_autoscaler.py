"""The live autoscaler: a thread that ends when it should, and never with more noise than needed."""

from __future__ import annotations

import threading

import pytest

from headgate.core.errors import EngineGoneError, InputError
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Outcome, Receipt, Sample
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import guards_for
from headgate.runtime.autoscaler import Autoscaler, preview_policy, wire
from headgate.testing import FakeClock


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
        return Receipt(self._clock.now(), Outcome.UNCHANGED, {"job": 1})

    def close(self) -> None:
        self.closed += 1
        if self._gone:
            raise EngineGoneError("the Spark session has stopped.")


def autoscaler(engine: CountedEngine, clock: FakeClock, journal: MemoryJournal, interval_s: float = 5.0) -> Autoscaler:
    policy = preview_policy("static", parse_objective("latency < 10s"))
    loop = wire(engine, policy, guards_for(policy), clock, journal=journal, engine_name="counted")
    return Autoscaler(loop, interval_s)


def test_it_ends_by_itself_when_the_engine_is_gone() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 3, gone=True)
    running = autoscaler(engine, clock, journal).start()
    running.thread.join(10)
    assert not running.is_alive
    assert engine.seen_s == [0.0, 5.0, 10.0]
    running.stop()
    assert [event.kind for event in journal.events()] == ["started", "engine-gone", "stopped"]


def test_it_is_stopped_once_however_often_it_is_told_to() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 2, gone=False)
    with autoscaler(engine, clock, journal).start() as running:
        assert engine.enough.wait(10)
        running.stop()
        assert not running.is_alive
    assert engine.closed == 1
    assert [event.kind for event in journal.events()] == ["started", "stopped"]


def test_a_cycle_that_took_too_long_is_not_made_up_for() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 3, gone=True)
    slow = autoscaler(engine, clock, journal, interval_s=5.0)
    slow.watch(lambda seen, _: clock.advance(12.0) if seen is not None and seen.at_s == 0 else None)
    slow.start().thread.join(10)
    assert engine.seen_s == [0.0, 15.0, 20.0], "the next cycles come at their regular times"


def test_learned_state_is_kept_for_the_next_run_of_the_same_journal() -> None:
    clock, journal = FakeClock(), MemoryJournal()
    engine = CountedEngine(clock, 1, gone=True)
    first = autoscaler(engine, clock, journal).start()
    first.thread.join(10)
    first.stop()
    assert journal.load_state("policy/static") == {"policy": "static", "version": 1}


@pytest.mark.parametrize("interval_s", [0.0, -1.0])
def test_an_interval_is_above_zero(interval_s: float) -> None:
    clock = FakeClock()
    with pytest.raises(InputError, match="interval"):
        autoscaler(CountedEngine(clock, 1, gone=True), clock, MemoryJournal(), interval_s)
