"""A check is worth what it catches: each is tried on something that breaks exactly its part of the contract."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.contracts import Engine
from headgate.core.errors import InputError
from headgate.core.types import (
    JSON,
    Answer,
    Batch,
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
    Target,
)
from headgate.core.window import Window
from headgate.journal.contract import Journal, ReadableJournal, Runs
from headgate.journal.memory import MemoryJournal
from headgate.policies import Context
from headgate.policies.frame.base import OperatorPolicy, PolicyBase
from headgate.policies.frame.settings import Settings
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.testing import (
    ContractViolation,
    check_policy,
    engines,
    journal_features,
    journals,
    policies,
)
from headgate.testing.engines import every_batch_is_reported_once
from headgate.testing.journal_features import RUN
from headgate.workloads import parse_workload


class Good(OperatorPolicy[Settings]):
    """Grows by one now and then, and learns how often it decided."""

    name = "good"

    def __init__(self, context: Context) -> None:
        super().__init__(Settings(), context)
        self.requested: dict[str, int] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        if sample.latency_s is None:
            return Target(instances.planned, "no-data", "nothing is known")
        self.requested[operator] = self.requested.get(operator, 0) + 1
        more = self.requested[operator] % 20 == 0
        return Target(instances.planned + more, "counted", "it is time", {"asked": self.requested[operator]})

    def _state(self) -> dict[str, JSON]:
        return {"asked": dict(self.requested)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self.requested = dict(state["asked"])


class Random(Good):
    """Is not seeded."""

    draws = itertools.count()

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned, "drawn", f"draw {next(self.draws)}")


class Meddling(Good):
    """Changes what it is shown."""

    def decide(self, now: Instant, window: Window) -> Proposal:
        samples: Any = window.observations[-1].samples if window.observations else {}
        for name, sample in samples.items():
            samples[name] = Sample(name, sample.at_s, latency_s=0.0)
        return super().decide(now, window)


class Unwritable(Good):
    """Has state that JSON cannot carry."""

    def _state(self) -> dict[str, JSON]:
        return {"asked": {self}}


class Sharing(Good):
    """Gives its state away instead of a copy."""

    def _state(self) -> dict[str, JSON]:
        return {"asked": self.requested}


class Forgetful(Good):
    """Does not save what it learned."""

    def _state(self) -> dict[str, JSON]:
        return {"asked": {}}


class Blind(Good):
    """Acts without a reading."""

    def decide(self, now: Instant, window: Window) -> Proposal:
        sizes = {name: window.instances(name) for name in window.operators}
        return Proposal({name: Target(size.planned + 1, "more", "more") for name, size in sizes.items() if size})


class Reckless(Good):
    """Takes what is not known for zero."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        less = (sample.latency_s or 0) == 0 and instances.planned > 1
        return Target(instances.planned - less, "idle" if less else "busy", "latency is low")


class Fragile(Good):
    """Cannot do without a metric."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        more = sample.backlog is not None and sample.backlog / sample.input_rate_per_s > 5  # type: ignore[operator]
        return Target(instances.planned + more, "backlog", "by backlog")


class Silent(Good):
    """Does not say why."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned, "steady", " ")


class Shouting(Good):
    """Has codes that are no codes."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned, "All is well!", "steady")


class Infinite(Good):
    """Has numbers that JSON cannot carry."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned, "steady", "steady", {"pressure": float("inf")})


class Picky(Good):
    """Takes a comparison for Python's own truth, which it is not when the reading is of numpy."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        slow = sample.latency_s is not None and (sample.latency_s > 0) is True
        return Target(instances.planned, "slow" if slow else "fast", "by latency")


class Hoarding(Good):
    """Keeps what numpy made of a reading."""

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        self.requested[operator] = sample.latency_s is not None and sample.latency_s > 0
        return Target(instances.planned, "steady", "steady")


class Straying(Good):
    """Speaks of operators that do not exist."""

    def decide(self, now: Instant, window: Window) -> Proposal:
        return Proposal({**super().decide(now, window).targets, "ghost": Target(1, "ghost", "boo")})


class Gullible(Good):
    """Takes any state."""

    def restore(self, state: Mapping[str, JSON]) -> None:
        self.requested = dict(state.get("asked", {}))


def test_a_good_policy_passes_every_check() -> None:
    check_policy(Good)


class Usual(OperatorPolicy[Settings]):
    """Is made of settings and a context, as registered ones are."""

    name = "usual"
    summary = "Keeps its size."
    Settings = Settings

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned, "kept", "the size stays")


class Unwritten(PolicyBase[Settings]):
    name = "unwritten"


def test_a_policy_is_checked_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "POLICY_CHECKS", (policies.refuses_state_that_is_not_its_own,))
    check_policy(Usual)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        (dict, "dict cannot be checked; give the name of a policy, a class that extends PolicyBase, or a function"),
        (5, "5 cannot be checked; give the name of a policy, a class that extends PolicyBase, or a function"),
        (lambda: None, "<lambda> cannot be checked; "),
        (Unwritten, "Unwritten cannot be checked; a policy needs summary, Settings, decide."),
        ("gud", "unknown policy 'gud'"),
    ],
)
def test_what_is_no_policy_is_reported_in_a_sentence(wrong: Any, reported: str) -> None:
    with pytest.raises(InputError) as caught:
        check_policy(wrong)
    assert str(caught.value).startswith(reported)


@pytest.mark.parametrize(
    ("policy", "check"),
    [
        (Random, policies.is_deterministic),
        (Meddling, policies.leaves_its_inputs_unchanged),
        (Unwritable, policies.saves_its_state_as_json),
        (Sharing, policies.saves_its_state_as_json),
        (Forgetful, policies.continues_from_restored_state),
        (Blind, policies.holds_without_data),
        (Reckless, policies.holds_without_data),
        (Reckless, policies.never_scales_in_on_partial_data),
        (Silent, policies.explains_itself),
        (Shouting, policies.explains_itself),
        (Infinite, policies.explains_itself),
        (Picky, policies.takes_readings_of_numpy),
        (Hoarding, policies.takes_readings_of_numpy),
        (Straying, policies.handles_several_operators),
        (Gullible, policies.refuses_state_that_is_not_its_own),
    ],
    ids=lambda value: value.__name__,
)
def test_a_policy_that_breaks_the_contract_is_caught(
    policy: Callable[[Context], PolicyBase[Settings]], check: Callable[[policies.PolicyFactory], None]
) -> None:
    with pytest.raises(ContractViolation):
        check(policy)


def test_a_policy_that_fails_without_a_metric_is_caught() -> None:
    with pytest.raises(TypeError):
        policies.never_scales_in_on_partial_data(Fragile)


# ------------------------------------------------------------------------------------------------------------ engines


class Simulated(SimulatedEngine):
    """A simulated engine to be broken."""

    def __init__(self) -> None:
        super().__init__(QueueNetwork(parse_workload("constant:10"), 5.0), startup_s=30.0)


class Adding(Simulated):
    """Takes a target for a number to add."""

    def apply(self, decision: Decision) -> Receipt:
        receipt = super().apply(decision)
        if decision.verdicts and receipt.outcome is Outcome.UNCHANGED:
            return Receipt(receipt.at_s, {"job": Answer(Outcome.ACCEPTED, receipt.requested["job"])})
        return receipt


class Lazy(Simulated):
    """Says yes and does nothing."""

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(
            self.now(), {name: Answer(Outcome.ACCEPTED, target) for name, target in decision.targets.items()}
        )


class Immortal(Simulated):
    """Goes on after it was closed."""

    def close(self) -> None:
        return None


class Trusting(Simulated):
    """Does what it can of a decision that it should refuse."""

    def apply(self, decision: Decision) -> Receipt:
        known = {name: verdict for name, verdict in decision.verdicts.items() if name in self.topology().operators}
        return super().apply(Decision(decision.at_s, decision.policy, known))


class Mislabelling(Simulated):
    """Mixes up whose readings they are."""

    def observe(self) -> Observation:
        seen = super().observe()
        return Observation(seen.at_s, {"job": Sample("other", seen.at_s)}, seen.instances)


class Batched(SimulatedEngine):
    """A simulated engine that works in batches, to be broken."""

    def __init__(self) -> None:
        super().__init__(MicroBatchJob(parse_workload("constant:10"), 20.0), startup_s=30.0)
        self.looks = 0

    def observe(self) -> Observation:
        seen = super().observe()
        self.looks += 1
        samples = {name: self.broken(sample) for name, sample in seen.samples.items()}
        return Observation(seen.at_s, samples, {name: self.sized(entry) for name, entry in seen.instances.items()})

    def broken(self, sample: Sample) -> Sample:
        return sample

    def sized(self, instances: Instances) -> Instances:
        return instances


class Belated(Batched):
    """Gives what it read some time ago, as of then."""

    def broken(self, sample: Sample) -> Sample:
        return replace(sample, at_s=sample.at_s - 5)


class Restarting(Batched):
    """Starts to count anew now and then."""

    def broken(self, sample: Sample) -> Sample:
        return replace(sample, done=(sample.done or 0) / self.looks)


class Repeating(Batched):
    """Tells of the batches of the reading before once more."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: tuple[Batch, ...] = ()

    def broken(self, sample: Sample) -> Sample:
        reason, self.reason = self.reason, sample.batches
        return replace(sample, batches=reason + sample.batches)


class Skipping(Batched):
    """Tells of the newest batch only."""

    def broken(self, sample: Sample) -> Sample:
        return replace(sample, batches=sample.batches[-1:])


class Mute(Batched):
    """Has no readings."""

    def __init__(self) -> None:
        super().__init__()
        self.reporting = False


class Boastful(Batched):
    """Counts instances that nobody requested."""

    def sized(self, instances: Instances) -> Instances:
        return replace(instances, ready=instances.ready + self.looks)


class Obliging(Simulated):
    """Takes a size that cannot be for the next that can."""

    def apply(self, decision: Decision) -> Receipt:
        verdicts = {name: replace(entry, target=max(2, entry.target)) for name, entry in decision.verdicts.items()}
        return super().apply(Decision(decision.at_s, decision.policy, verdicts))


class Nervous(Simulated):
    """Resizes when it is looked at."""

    def observe(self) -> Observation:
        seen = super().observe()
        for fleet in self._fleets.values():
            fleet.bring_to(fleet.planned + 1, self.now())
        return seen


def settle(engine: Engine) -> None:
    assert isinstance(engine, SimulatedEngine)
    engine.advance(engine.now() + 60)


@pytest.mark.parametrize(
    ("engine", "check"),
    [
        (Mislabelling, engines.observes_its_own_operators),
        (Lazy, engines.reaches_the_decided_size),
        (Belated, engines.reads_what_holds_together),
        (Restarting, engines.reads_what_holds_together),
        (Repeating, engines.reads_what_holds_together),
        (Skipping, engines.reads_what_holds_together),
        (Mute, engines.reads_what_holds_together),
        (Boastful, engines.reads_what_holds_together),
        (Obliging, engines.keeps_to_possible_sizes),
        (Adding, engines.applies_a_decision_only_once),
        (Adding, engines.holds),
        (Nervous, engines.observing_changes_nothing),
        (Trusting, engines.refuses_an_unknown_operator),
        (Immortal, engines.closes_cleanly),
    ],
    ids=lambda value: value.__name__,
)
def test_an_engine_that_breaks_the_contract_is_caught(
    engine: engines.EngineFactory, check: Callable[[engines.EngineFactory, engines.Settle], None]
) -> None:
    with pytest.raises(ContractViolation):
        check(engine, settle)


# ----------------------------------------------------------------------------------------------------------- journals


class Rounding(MemoryJournal):
    """Loses what is not known."""

    def observed(self, observation: Observation) -> None:
        samples = {name: Sample(name, s.at_s, latency_s=s.latency_s or 0.0) for name, s in observation.samples.items()}
        super().observed(Observation(observation.at_s, samples, observation.instances))


class Cutting(MemoryJournal):
    """Cannot carry infinity."""

    def noted(self, event: Event) -> None:
        numbers = {name: str(number) if number == float("inf") else number for name, number in event.numbers.items()}
        super().noted(Event(event.at_s, event.kind, event.detail, numbers))


class Backwards(MemoryJournal):
    """Gives the newest first."""

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        return super().events(run=run, since_s=since_s)[::-1]


class Mixing(MemoryJournal):
    """Keeps one run for ever."""

    def begin(self, run: Run) -> int:
        return super().begin(run) if not self.runs() else 2


class Stubborn(MemoryJournal):
    """Keeps the first state."""

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        if self.load_state(key) is None:
            super().save_state(key, state)


class Careless(MemoryJournal):
    """Opens a run by itself."""

    def noted(self, event: Event) -> None:
        if not self.runs():
            self.begin(RUN)
        super().noted(event)


class Endless(MemoryJournal):
    """Goes on after it was closed."""

    def close(self) -> None:
        return None


class Jumbling(MemoryJournal):
    """Does not ask which job."""

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        return super().runs()


class Hopeful(MemoryJournal):
    """Takes what was decided for what is."""

    def last_sizes(self, job: str) -> dict[str, int]:
        newest = self.newest_run(job)
        decisions = self.decisions(run=newest[0]) if newest else []
        return decisions[-1].targets if decisions else super().last_sizes(job)


class Counting(MemoryJournal):
    """Tells of runs that saw nothing, too."""

    def spans(self, job: str, since_s: float) -> dict[int, tuple[float, float]]:
        seen = super().spans(job, since_s)
        return {number: seen.get(number, (since_s, since_s)) for number, _ in self.runs(job)}


class Delayed(MemoryJournal):
    """Shows readers what was there when they came."""

    def reader(self) -> MemoryJournal:
        copy = MemoryJournal()
        copy.begin(RUN)
        return copy


def delayed_reader(journal: Journal) -> ReadableJournal:
    return journal.reader() if isinstance(journal, Delayed) else journal


@pytest.mark.parametrize(
    ("journal", "check"),
    [
        (Rounding, journals.gives_back_what_was_written),
        (Cutting, journals.keeps_numbers_that_are_not_finite),
        (Backwards, journals.keeps_the_order),
        (Mixing, journals.keeps_runs_apart),
        (Jumbling, journals.keeps_jobs_apart),
        (Hopeful, journals.remembers_the_last_sizes),
        (Counting, journals.tells_when_runs_saw_something),
        (Stubborn, journals.keeps_the_newest_state),
        (Delayed, journals.can_be_read_while_it_is_written),
        (Careless, journals.writes_only_within_a_run),
        (Endless, journals.closes_cleanly),
    ],
    ids=lambda value: value.__name__,
)
def test_a_journal_that_breaks_the_contract_is_caught(
    journal: journals.JournalFactory, check: Callable[[journals.JournalFactory, journals.OpenReader], None]
) -> None:
    with pytest.raises(ContractViolation):
        check(journal, delayed_reader)


def same_writer(journal: Journal) -> Journal:
    """A second writer that is the first: what it begins becomes the run of both."""
    return journal


def apart(journal: Journal) -> Journal:
    """A second writer that writes to something else."""
    return MemoryJournal()


@pytest.mark.parametrize(
    ("open_writer", "check"),
    [
        (same_writer, journal_features.writers_keep_to_their_runs),
        (same_writer, journal_features.a_second_writer_needs_its_own_run),
        (apart, journal_features.state_is_shared),
        (apart, journal_features.writers_wait_for_each_other),
    ],
)
def test_writers_that_break_the_contract_are_caught(
    open_writer: journal_features.OpenWriter,
    check: Callable[[Callable[[], Journal], journal_features.OpenWriter], None],
) -> None:
    with pytest.raises(ContractViolation):
        check(MemoryJournal, open_writer)


class Amnesic(MemoryJournal):
    """Keeps the last few of everything."""

    def decisions(self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None) -> list[Decision]:
        return super().decisions(run=run, since_s=since_s, last=10)


class Averaging(MemoryJournal):
    """Makes up readings between those that it has."""

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]:
        seen = super().observations(run=run, since_s=since_s)
        middle = {"job": Sample("job", seen[-1].at_s, arrived=(seen[0].samples["job"].arrived or 0.0) / 2)}
        return [*seen[:-1], Observation(seen[-1].at_s, middle, seen[-1].instances)]


class Dropping(MemoryJournal):
    """Lets go of answers."""

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        return super().receipts(run=run, since_s=since_s)[1:]


@pytest.mark.parametrize(
    ("journal", "check"),
    [
        (Amnesic, journal_features.keeps_young_entries_whole),
        (MemoryJournal, journal_features.leaves_one_a_minute_then_one_an_hour),
        (Averaging, journal_features.differences_stay_right),
        (Dropping, journal_features.keeps_what_is_new),
        (MemoryJournal, journal_features.tells_where_it_was_thinned),
        (MemoryJournal, journal_features.removes_what_is_too_old),
    ],
    ids=lambda value: value.__name__,
)
def test_a_retention_that_breaks_the_contract_is_caught(
    journal: Callable[[], Journal], check: Callable[[journal_features.RetentionFactory], None]
) -> None:
    with pytest.raises(ContractViolation):
        check(lambda retention, now: journal())


def test_what_a_running_batch_has_done_is_not_missed_before_a_batch_was_reported() -> None:
    ended = Batch(0.0, 4.0, 60.0)
    first = Sample("job", 5.0, arrived=100.0, done=60.0, backlog=40.0, batches=(ended,))
    running = Sample("job", 7.0, arrived=140.0, done=130.0, backlog=10.0, running_s=1.5)
    sizes = {"job": Instances(1, 1, 1)}
    seen = [Observation(sample.at_s, {"job": sample}, sizes) for sample in (first, running)]
    every_batch_is_reported_once(seen, "job")
    stopped = replace(running, running_s=None)
    with pytest.raises(ContractViolation, match="had 0 records, and 70 were counted as done"):
        every_batch_is_reported_once([seen[0], Observation(7.0, {"job": stopped}, sizes)], "job")


@pytest.mark.parametrize("target", [3, None, "three"])
def test_a_policy_that_returns_something_else_than_a_target_fails_in_one_sentence(target: object) -> None:
    class Sloppy(Good):
        def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
            return target  # type: ignore[return-value] # as somebody new may write it

    message = rf"it returned {target!r} for \w+; a Target\(instances, code, reason\) is needed"
    with pytest.raises(ContractViolation, match=message):
        check_policy(Sloppy)
