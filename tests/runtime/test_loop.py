"""The control loop goes on whatever fails, and says what failed."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from headgate.core.errors import EngineError, EngineGoneError, JournalError
from headgate.core.guards import Bounds
from headgate.core.step import Guards
from headgate.core.topology import Topology
from headgate.core.types import (
    JSON,
    Answer,
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Proposal,
    Receipt,
    Run,
    Sample,
    Startup,
    Target,
)
from headgate.core.window import Window
from headgate.journal.contract import startup_key, state_key
from headgate.journal.memory import MemoryJournal
from headgate.runtime.loop import FALLBACK_AFTER_TICKS, ControlLoop
from headgate.testing import FakeClock

RUN = Run(0.0, "growing", {}, "latency p95 < 10s", "tiny", ("job",))


class TinyEngine:
    """One operator that is resized at once; what it shall raise or answer can be set."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.planned = 2
        self.applied: list[Decision] = []
        self.observe_fails: Exception | None = None
        self.apply_fails: Exception | None = None
        self.answer: Outcome | None = None
        self.startups: dict[str, tuple[Startup, ...]] = {}
        self.sample_changes: dict[str, float] = {}

    def topology(self) -> Topology:
        return Topology.single()

    def observe(self) -> Observation:
        if self.observe_fails is not None:
            raise self.observe_fails
        now = self._clock.now()
        sizes = Instances(self.planned, self.planned, self.planned)
        sample = replace(Sample("job", now, latency_s=1.0), **self.sample_changes)  # type: ignore[arg-type]
        return Observation(now, {"job": sample}, {"job": sizes}, self.startups)

    def apply(self, decision: Decision) -> Receipt:
        if self.apply_fails is not None:
            raise self.apply_fails
        self.applied.append(decision)
        changed = decision.targets["job"] != self.planned
        if self.answer is None:
            self.planned = decision.targets["job"]
        outcome = self.answer or (Outcome.ACCEPTED if changed else Outcome.UNCHANGED)
        return Receipt(self._clock.now(), {"job": Answer(outcome, self.planned)})

    def close(self) -> None:
        return None


class Growing:
    """Wants one instance more each time, unless it is set to fail or to hold."""

    name = "growing"

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.step = 1
        self.calls = 0

    def decide(self, now: Instant, window: Window) -> Proposal:
        self.calls += 1
        if self.fails is not None:
            raise self.fails
        instances = window.instances("job")
        assert instances is not None
        return Proposal({"job": Target(instances.planned + self.step, "growing", "it wants more")})

    def snapshot(self) -> Mapping[str, JSON]:
        return {"calls": self.calls}

    def restore(self, state: Mapping[str, JSON]) -> None:
        self.calls = state["calls"]


KEY = state_key("job", ("job",), Growing())


class FullDisk(MemoryJournal):
    """A journal that can be made to refuse every entry."""

    full = False

    def observed(self, observation: Observation) -> None:
        self._refuse()
        super().observed(observation)

    def decided(self, decision: Decision) -> None:
        self._refuse()
        super().decided(decision)

    def received(self, receipt: Receipt) -> None:
        self._refuse()
        super().received(receipt)

    def noted(self, event: Event) -> None:
        self._refuse()
        super().noted(event)

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        self._refuse()
        super().save_state(key, state)

    def _refuse(self) -> None:
        if self.full:
            raise JournalError("the disk is full.")


class Bench:
    """A loop over the three, and a clock that moves 5 s per tick."""

    def __init__(self, *, with_journal: bool = True) -> None:
        self.clock = FakeClock()
        self.engine = TinyEngine(self.clock)
        self.policy = Growing()
        self.journal = FullDisk()
        self.journal.begin(RUN)
        self.loop = ControlLoop(
            self.engine,
            self.policy,
            (Bounds(1, 4),),
            self.clock,
            journal=self.journal if with_journal else None,
        )

    def tick(self, count: int = 1) -> Decision | None:
        decision = None
        for _ in range(count):
            decision = self.loop.tick()
            self.clock.advance(5)
        return decision

    def events(self) -> list[tuple[float, str]]:
        return [(event.at_s, event.kind) for event in self.journal.events()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_tick_observes_decides_applies_and_journals(bench: Bench) -> None:
    decision = bench.tick()
    assert decision is not None
    assert decision.targets == {"job": 3}
    assert bench.engine.planned == 3
    assert [seen.at_s for seen in bench.journal.observations()] == [0]
    assert bench.journal.decisions() == [decision]
    assert [receipt.outcome for receipt in bench.journal.receipts()] == [Outcome.ACCEPTED]


def test_the_guards_have_their_say(bench: Bench) -> None:
    bench.tick(5)
    assert bench.engine.planned == 4


def test_it_works_without_a_journal() -> None:
    bench = Bench(with_journal=False)
    bench.tick(2)
    bench.loop.note("stopped", "by the test")
    assert bench.engine.planned == 4


def test_a_hold_is_applied_too_so_that_the_engine_repairs_what_deviates(bench: Bench) -> None:
    bench.policy.step = 0
    decision = bench.tick()
    assert decision is not None
    assert decision.is_hold
    assert bench.engine.applied == [decision]
    assert bench.journal.decisions() == [decision]
    assert bench.journal.receipts() == [], "that nothing changed is not worth an entry"


def test_past_decisions_are_in_the_window(bench: Bench) -> None:
    bench.tick(2)
    change = bench.loop.history.last_change("job")
    assert change is not None
    assert (change.at_s, change.verdict.target) == (5, 4)


@pytest.mark.parametrize(
    ("answer", "recorded"),
    [(Outcome.ACCEPTED, True), (Outcome.UNCHANGED, True), (Outcome.REFUSED, False), (Outcome.FAILED, False)],
)
def test_a_change_that_the_engine_did_not_take_is_no_change(bench: Bench, answer: Outcome, recorded: bool) -> None:
    bench.engine.answer = answer
    bench.tick()
    assert (bench.loop.history.last_change("job") is not None) is recorded
    assert len(bench.journal.decisions()) == 1


def test_an_engine_that_cannot_be_observed_costs_the_tick_and_not_the_loop(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.engine.observe_fails = EngineError("no answer.")
    assert bench.tick(2) is None
    bench.engine.observe_fails = None
    assert bench.tick() is not None
    assert bench.events() == [(0, "observe-failed"), (5, "observe-failed")]
    assert bench.journal.events()[0].detail == "no answer."
    assert bench.policy.calls == 1
    assert "no answer." in caplog.text


@pytest.mark.parametrize("bad", [{"latency_s": math.nan}, {"at_s": math.nan}, {"age_s": -1e300}, {"done": math.inf}])
def test_a_reading_that_cannot_be_true_reaches_the_journal_and_no_policy(bench: Bench, bad: dict[str, float]) -> None:
    bench.tick()
    bench.engine.sample_changes = bad
    decision = bench.tick()
    bench.engine.sample_changes = {}
    bench.tick()
    assert decision is not None
    assert decision.targets == {"job": 4}, "the policy still decides"
    assert bench.events() == [(5.0, "reading-refused")]
    assert bench.journal.events()[0].numbers == {"operator": "job", "field": next(iter(bad))}
    samples = [sample for seen in bench.journal.observations() for sample in seen.samples.values()]
    values = [value for sample in samples for value in (sample.at_s, sample.age_s, sample.latency_s, sample.done)]
    assert all(value is None or math.isfinite(value) for value in values)


def test_an_engine_that_cannot_be_changed_is_reported_and_tried_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.engine.apply_fails = EngineError("the cluster is away.")
    bench.tick()
    assert bench.loop.history.last_change("job") is None
    assert [(r.outcome, r.detail) for r in bench.journal.receipts()] == [(Outcome.FAILED, "the cluster is away.")]
    assert "the cluster is away." in caplog.text
    bench.engine.apply_fails = None
    bench.tick()
    assert bench.engine.planned == 3


@pytest.mark.parametrize("where", ["observe_fails", "apply_fails"])
def test_an_engine_that_is_gone_ends_the_loop(bench: Bench, where: str) -> None:
    setattr(bench.engine, where, EngineGoneError("the session has ended."))
    with pytest.raises(EngineGoneError):
        bench.tick()


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("job"), ZeroDivisionError()])
def test_a_policy_that_fails_holds_and_is_called_again(
    bench: Bench, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bench.policy.fails = error
    decision = bench.tick()
    assert decision is not None
    assert decision.is_hold
    verdict = decision.verdicts["job"]
    assert verdict.code == "policy-failed"
    assert type(error).__name__ in verdict.reason
    assert bench.events() == [(0, "policy-failed")]
    assert "growing failed" in caplog.text
    bench.policy.fails = None
    bench.tick()
    assert bench.engine.planned == 3


def test_a_policy_that_goes_on_failing_is_replaced_and_takes_over_again_when_it_works(bench: Bench) -> None:
    bench.loop.make_fallback = lambda: (Growing(), Guards((Bounds(1, 4),)))
    bench.policy.fails = ValueError("a bug")
    codes = [decision.verdicts["job"].code for _ in range(FALLBACK_AFTER_TICKS + 1) if (decision := bench.tick())]
    assert codes == ["policy-failed"] * (FALLBACK_AFTER_TICKS - 1) + ["growing"] * 2
    assert bench.engine.planned == 4
    bench.policy.fails = None
    bench.policy.step = 0
    bench.tick()
    kinds = [kind for _, kind in bench.events()]
    assert kinds == [*["policy-failed"] * FALLBACK_AFTER_TICKS, "policy-fallback", "policy-failed", "policy-back"]
    bench.policy.fails = ValueError("a bug")
    bench.tick(FALLBACK_AFTER_TICKS - 1)
    assert [kind for _, kind in bench.events()][6:] == ["policy-failed"] * (FALLBACK_AFTER_TICKS - 1)


def test_a_fallback_that_fails_too_holds(bench: Bench) -> None:
    failing = Growing()
    bench.policy.fails = failing.fails = ValueError("a bug")
    bench.loop.make_fallback = lambda: (failing, Guards())
    decision = bench.tick(5)
    assert decision is not None
    assert decision.is_hold


def interrupted() -> SystemError:
    """What Python makes of Ctrl-C in the midst of a compiled function."""
    error = SystemError("<function _numba_unpickle> returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


def _raise_interrupted(*_: object) -> None:
    raise interrupted()


@pytest.mark.parametrize(
    "interrupt",
    [
        lambda bench: setattr(bench.policy, "fails", interrupted()),
        lambda bench: setattr(bench.engine, "observe_fails", interrupted()),
        lambda bench: setattr(bench.engine, "apply_fails", interrupted()),
        lambda bench: setattr(bench.journal, "decided", _raise_interrupted),
        lambda bench: bench.loop.watchers.append(_raise_interrupted),
        lambda bench: bench.loop.chores.append(_raise_interrupted),
    ],
)
def test_ctrl_c_in_a_compiled_function_is_no_failure_to_go_on_after(
    interrupt: Callable[[Bench], None], bench: Bench
) -> None:
    interrupt(bench)
    with pytest.raises(KeyboardInterrupt):
        bench.tick()
    assert bench.events() == []


def test_a_guard_that_fails_is_treated_like_a_policy_that_fails(bench: Bench) -> None:
    def broken(window: Window, decision: Decision) -> Decision:
        raise RuntimeError("a bug in a guard")

    bench.loop.guards = Guards([broken])
    decision = bench.tick()
    assert decision is not None
    assert decision.is_hold
    assert bench.engine.planned == 2


def test_a_journal_that_cannot_be_written_does_not_stop_the_scaling_and_is_reported_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.journal.full = True
    bench.tick(2)
    assert bench.engine.planned == 4
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "the disk is full." in errors[0].getMessage()


def test_a_journal_that_works_again_is_used_again_and_its_next_failure_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for full in (True, False, True):
        bench.journal.full = full
        bench.policy.step = 0
        bench.tick()
    assert [decision.at_s for decision in bench.journal.decisions()] == [5]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


def test_watchers_are_shown_every_tick_the_failed_ones_too(bench: Bench) -> None:
    shown: list[tuple[bool, bool]] = []
    bench.loop.watchers.append(lambda seen, decided: shown.append((seen is not None, decided is not None)))
    bench.tick()
    bench.engine.observe_fails = EngineError("no answer.")
    bench.tick()
    assert shown == [(True, True), (False, False)]


def test_learned_state_is_saved_when_the_size_changes(bench: Bench) -> None:
    bench.policy.step = 0
    bench.tick()
    assert bench.journal.load_state(KEY) is None
    bench.policy.step = 1
    bench.tick()
    assert bench.journal.load_state(KEY) == {"calls": 2}


def test_what_is_learned_while_nothing_changes_is_saved_every_minute(bench: Bench) -> None:
    bench.policy.step = 0
    bench.tick(12)
    assert bench.journal.load_state(KEY) is None
    bench.tick()
    assert bench.journal.load_state(KEY) == {"calls": 13}


def test_a_size_that_was_refused_did_not_change(bench: Bench) -> None:
    bench.engine.answer = Outcome.REFUSED
    bench.tick()
    assert bench.loop.history.last_change("job") is None
    assert [receipt.outcome for receipt in bench.journal.receipts()] == [Outcome.REFUSED]
    bench.engine.answer = Outcome.DELIVERED
    bench.tick()
    assert bench.loop.history.last_change("job") is not None, "delivered counts as the plan until it is denied"


def test_start_up_times_are_learned_and_saved_with_the_state(bench: Bench) -> None:
    startup = Startup("1", 0.0, 4.0, 6.0, 11.0)
    bench.engine.startups = {"job": (startup,)}
    bench.tick()
    assert bench.loop.history.startup_times("job").warm_s.quantile(0.5) == 11.0
    assert bench.journal.load_state(startup_key("job")) == {
        "job": {"registered_s": [4.0], "first_task_s": [6.0], "warm_s": [11.0]}
    }


def test_learned_state_can_be_saved_at_any_time(bench: Bench) -> None:
    bench.loop.save_state()
    assert bench.journal.load_state(KEY) == {"calls": 0}


def test_what_happens_to_the_loop_is_noted_with_its_time(bench: Bench) -> None:
    bench.clock.advance(7)
    bench.loop.note("started", "by the test")
    bench.loop.note("stopped", "by the test", at_s=9)
    assert bench.events() == [(7, "started"), (9, "stopped")]


@pytest.mark.parametrize("spoil", [lambda bench: None, lambda bench: setattr(bench.policy, "fails", ValueError("bug"))])
def test_the_same_run_decides_the_same(spoil: Callable[[Bench], None]) -> None:
    first, second = Bench(), Bench()
    for bench in (first, second):
        spoil(bench)
        bench.tick(4)
    assert first.journal.decisions() == second.journal.decisions()


class Reporting(Growing):
    """Holds, and reports an event at the second decision."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def take_events(self) -> list[Event]:
        return [Event(5.0, "mode-switched", "from one to the other", {"error": 0.1})] if self.calls == 2 else []


def test_events_of_a_policy_are_journalled_and_its_learned_state_saved(bench: Bench) -> None:
    bench.loop.policy = Reporting()
    bench.tick()
    assert bench.journal.events() == []
    assert bench.journal.load_state(KEY) is None
    bench.tick(2)
    assert bench.journal.events() == [Event(5.0, "mode-switched", "from one to the other", {"error": 0.1})]
    assert bench.journal.load_state(KEY) == {"calls": 2}


@pytest.mark.parametrize(("had", "planned"), [(4, 4), (9, 4), (2, 2), (1, 2)])
def test_a_job_that_starts_again_gets_back_the_size_it_had_but_is_not_scaled_in(
    bench: Bench, had: int, planned: int
) -> None:
    """Two are there, and at most four are allowed."""
    bench.policy.step = 0
    bench.loop.resume({"job": had, "an operator of long ago": 7})
    bench.engine.observe_fails = EngineError("no answer.")
    bench.tick()
    bench.engine.observe_fails = None
    bench.tick()
    assert bench.engine.planned == planned
    notes = bench.journal.decisions()[0].verdicts["job"].notes
    assert any("when it was last seen" in note.why for note in notes) is (planned > 2)
    bench.engine.planned = 1
    bench.tick()
    assert bench.engine.planned == 1, "only the first decision"
