"""The recent observations and decisions that a policy may use, by time.

A policy gets a :class:`Window`, which can only be read. The loop owns the :class:`History` behind it and is the only
one to add to it, so a cycle costs the same however long the history is.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, tzinfo
from operator import attrgetter

from headgate.core.budget import Budget, BudgetKeeper, Spending, SpendingKeeper
from headgate.core.errors import JournalError, StateError
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.core.types import (
    JSON,
    Batch,
    Decision,
    Instances,
    Instant,
    Observation,
    Sample,
    Startup,
    Verdict,
    quickly,
)
from headgate.core.units import format_duration, instances_in_words

MAX_DURATIONS = 100
"""Number of newest times to retain, so that a cluster that became slower is noticed."""


class Durations:
    """The newest of some measured durations, in seconds."""

    def __init__(self, values_s: Iterable[float] = ()) -> None:
        self._values_s: deque[float] = deque(values_s, maxlen=MAX_DURATIONS)

    def __len__(self) -> int:
        return len(self._values_s)

    @property
    def values_s(self) -> tuple[float, ...]:
        """Oldest first."""
        return tuple(self._values_s)

    def add(self, value_s: float | None) -> None:
        if value_s is not None:
            self._values_s.append(float(value_s))

    def quantile(self, share: float) -> float | None:
        """The smallest measured time that this share of them did not exceed; ``None`` before there are any."""
        if not self._values_s:
            return None
        ordered = sorted(self._values_s)
        return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


class StartupTimes:
    """The times of one operator's instances, from the request to each of three moments.

    >>> times = StartupTimes()
    >>> times.add(Startup("1", 0.0, 4.0, 6.0, 11.0))
    >>> times.add(Startup("2", 0.0, 5.0, 8.0, None))
    >>> times.warm_s.quantile(0.9), times.registered_s.quantile(0.5)
    (11.0, 4.0)
    >>> startup_summary(times).first_task_s
    DurationQuantiles(median_s=6.0, p90_s=8.0)
    """

    def __init__(self) -> None:
        self.registered_s = Durations()
        """Until the cluster had it."""
        self.first_task_s = Durations()
        """Until its first task was done."""
        self.warm_s = Durations()
        """Until a batch was no longer slower because of it."""

        self._incomplete: dict[str, Startup] = {}
        """Start-ups that are not complete yet, by instance."""

    def __len__(self) -> int:
        return len(self.registered_s)

    def add(self, startup: Startup) -> None:
        """Add a start-up; an instance that is reported again when more is known counts once."""
        before = self._incomplete.pop(startup.instance, None)
        if before is None or before.requested_s != startup.requested_s:
            before = None
            self.registered_s.add(startup.registered_after_s)
        if before is None or before.first_task_after_s is None:
            self.first_task_s.add(startup.first_task_after_s)
        self.warm_s.add(startup.warm_after_s)
        if startup.warm_after_s is None:
            self._incomplete[startup.instance] = startup
            if len(self._incomplete) > MAX_DURATIONS:
                del self._incomplete[next(iter(self._incomplete))]

    def to_json(self) -> dict[str, JSON]:
        return {
            "registered_s": list(self.registered_s.values_s),
            "first_task_s": list(self.first_task_s.values_s),
            "warm_s": list(self.warm_s.values_s),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> StartupTimes:
        times = cls()
        for name in ("registered_s", "first_task_s", "warm_s"):
            setattr(times, name, Durations(float(value_s) for value_s in saved[name]))
        return times


@dataclass(frozen=True, slots=True)
class DurationQuantiles:
    """The median and the 90th percentile of durations."""

    median_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class StartupSummary:
    """Start-up times from the request on; ``None`` where they were never observed."""

    count: int
    registered_s: DurationQuantiles | None
    first_task_s: DurationQuantiles | None
    warm_s: DurationQuantiles | None


def startup_summary(times: StartupTimes) -> StartupSummary:
    """The distribution of measured start-up times in a few numbers."""
    return StartupSummary(len(times), _spread(times.registered_s), _spread(times.first_task_s), _spread(times.warm_s))


def _spread(durations: Durations) -> DurationQuantiles | None:
    median_s, p90_s = durations.quantile(0.5), durations.quantile(0.9)
    return None if median_s is None or p90_s is None else DurationQuantiles(median_s, p90_s)


def startup_summaries(
    saved: Mapping[str, JSON] | None, observations: Iterable[Observation] = ()
) -> dict[str, StartupSummary]:
    """Return a summary per operator: of saved times, or else of those in the observations."""
    times: dict[str, StartupTimes] = defaultdict(StartupTimes)
    if saved is None:
        for observation in observations:
            for operator, startups in observation.startups.items():
                for startup in startups:
                    times[operator].add(startup)
    else:
        try:
            times.update((operator, StartupTimes.from_json(saved_times)) for operator, saved_times in saved.items())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"start-up times in the journal are damaged: {error!r}.") from error
    return {operator: startup_summary(saved_times) for operator, saved_times in times.items() if len(saved_times)}


def startup_in_words(summary: StartupSummary) -> str:
    """
    >>> startup_in_words(StartupSummary(12, DurationQuantiles(4.0, 6.0), DurationQuantiles(6.0, 8.0), None))
    'measured on 12 instances: registered 4s after the request (90 % within 6s), first task done after 6s (8s)'
    """
    stages = (("registered", summary.registered_s), ("first task done", summary.first_task_s), ("warm", summary.warm_s))
    stages_text = [_stage(name, spread, first=name == "registered") for name, spread in stages if spread is not None]
    return f"measured on {instances_in_words(summary.count)}: {', '.join(stages_text)}"


def _stage(name: str, spread: DurationQuantiles, *, first: bool) -> str:
    """Return one stage as text; the first explains the two numbers."""
    median, p90 = format_duration(spread.median_s), format_duration(spread.p90_s)
    return f"{name} {median} after the request (90 % within {p90})" if first else f"{name} after {median} ({p90})"


DEFAULT_RETENTION_S = 3600.0
_observation = quickly(Observation)
PEACE_S = 60.0
"""After this long without a change in ready instances, the next one starts a new unsettled period."""


@dataclass(frozen=True, slots=True)
class SizeChange:
    """One change of an operator's size that was decided."""

    at_s: Instant
    verdict: Verdict

    @property
    def is_scale_out(self) -> bool:
        return self.verdict.change > 0


class Window:
    """A read-only view of the recent past, newest last."""

    __slots__ = (
        "_budgets",
        "_decisions",
        "_doubted_s",
        "_last_in",
        "_last_out",
        "_objective",
        "_observations",
        "_ready_since_s",
        "_samples",
        "_short_since_s",
        "_spending",
        "_startup_times",
        "_streaks",
        "_unsettled_since_s",
        "starts_at_s",
        "topology",
    )

    def __init__(self, topology: Topology, objective: Objective | None = None, starts_at_s: float = 0.0) -> None:
        self.topology = topology
        self.starts_at_s = starts_at_s
        """When the loop's clock was 0, in seconds since the Unix epoch; 0 where it counts from there."""
        self._observations: deque[Observation] = deque()
        self._decisions: deque[Decision] = deque()
        self._samples: dict[str, deque[Sample]] = {name: deque() for name in topology.operators}
        # The last changes outlive the retention: a guard time needs them however long ago they were.
        self._last_out: dict[str, SizeChange] = {}
        self._last_in: dict[str, SizeChange] = {}
        self._streaks: dict[str, int] = {}
        self._ready_since_s: dict[str, Instant] = {}
        self._unsettled_since_s: dict[str, Instant] = {}
        self._short_since_s: dict[str, Instant] = {}
        self._doubted_s: dict[str, Instant] = {}
        self._startup_times = {name: StartupTimes() for name in topology.operators}
        self._objective = objective
        self._budgets = _budgets_of(topology, objective)
        self._spending = _spending_of(topology, objective)

    @property
    def operators(self) -> tuple[str, ...]:
        return self.topology.operators

    @property
    def observations(self) -> Sequence[Observation]:
        return self._observations

    @property
    def decisions(self) -> Sequence[Decision]:
        return self._decisions

    def epoch_s(self, at_s: Instant) -> float:
        """Return a time of the loop's clock in seconds since the Unix epoch."""
        return self.starts_at_s + at_s

    def date(self, at_s: Instant, zone: tzinfo = UTC) -> datetime:
        """Return the date and the time of day at a time of the loop's clock; policies have no other calendar."""
        return datetime.fromtimestamp(self.epoch_s(at_s), zone)

    def instances(self, operator: str) -> Instances | None:
        """The newest known size of an operator; stale when the newest observation lacks it."""
        return self._observations[-1].instances.get(operator) if self._observations else None

    def startup_times(self, operator: str) -> StartupTimes:
        """Start-up times of an operator's instances, as measured so far."""
        return self._startup_times[operator]

    def budget(self, operator: str) -> Budget | None:
        """The state of an operator's error budget; ``None`` while it is unknown.

        It covers a whole period of the objective, runs before a restart included, whatever the window retains.
        """
        keeper = self._budgets.get(operator)
        return keeper.budget(self._observations[-1].at_s) if keeper is not None and self._observations else None

    def spending(self) -> Spending | None:
        """The cost of all operators and its limit; ``None`` where they have no price."""
        if self._spending is None or not self._observations:
            return None
        return self._spending.spending(self._observations[-1].at_s)

    def spent(self, span_s: float) -> tuple[float, float]:
        """What was spent in the last ``span_s`` seconds, and how many of these are known; at most a period."""
        if self._spending is None or not self._observations:
            return 0.0, 0.0
        return self._spending.spent(span_s, self._observations[-1].at_s)

    def sample(self, operator: str) -> Sample | None:
        """The newest reading of an operator, however old."""
        samples = self._samples[operator]
        return samples[-1] if samples else None

    def sample_at(self, operator: str, at_s: Instant) -> Sample | None:
        """The reading that was the newest one at a time in the past."""
        samples = self._samples[operator]
        place = bisect_right(samples, at_s, key=_at_s)
        return samples[place - 1] if place else None

    def first_sample(self, operator: str, since_s: Instant) -> Sample | None:
        """The oldest reading taken at or after a time."""
        samples = self._samples[operator]
        place = bisect_left(samples, since_s, key=_at_s)
        return samples[place] if place < len(samples) else None

    def samples(self, operator: str, since_s: Instant | None = None, *, settled: bool = False) -> list[Sample]:
        """The readings taken at or after a time, oldest first; with ``settled``, without those made while warming."""
        found = []
        for sample in reversed(self._samples[operator]):
            if since_s is not None and sample.at_s < since_s:
                break
            if not (settled and sample.warming):
                found.append(sample)
        found.reverse()
        return found

    def batches(self, operator: str, since_s: Instant | None = None, *, settled: bool = False) -> list[Batch]:
        """The batches that ended after a time, oldest first; with ``settled``, without those made while warming."""
        found: list[Batch] = []
        for sample in reversed(self._samples[operator]):
            if since_s is not None and sample.at_s <= since_s:
                break
            found.extend(
                batch
                for batch in reversed(sample.batches)
                if not (settled and batch.warming) and (since_s is None or batch.ended_s > since_s)
            )
        found.reverse()
        return found

    def settled_since_s(self, operator: str) -> Instant | None:
        """Since when the size is unchanged: no later decision changed it, and no instance joined or left.

        A reading that is not newer than this belongs to another size.
        """
        change, ready_since_s = self.last_change(operator), self._ready_since_s.get(operator)
        if change is None or ready_since_s is None:
            return ready_since_s if change is None else change.at_s
        return max(change.at_s, ready_since_s)

    def unsettled_since_s(self, operator: str) -> Instant | None:
        """Since when instances have been joining and leaving without a quiet minute in between."""
        return self._unsettled_since_s.get(operator)

    def short_since_s(self, operator: str) -> Instant | None:
        """Since when fewer instances than planned are ready and none has joined; ``None`` if none is missing."""
        return self._short_since_s.get(operator)

    def doubted_s(self, operator: str) -> Instant | None:
        """When a reading was last suspect or refused in part (``reading_gate.py``); ``None`` if never."""
        return self._doubted_s.get(operator)

    def is_doubted(self, operator: str) -> bool:
        """Whether the newest reading of an operator is suspect or was refused in part."""
        return bool(self._observations) and self._doubted_s.get(operator) == self._observations[-1].at_s

    def last_change(self, operator: str) -> SizeChange | None:
        """The newest change of size in either direction."""
        out, in_ = self._last_out.get(operator), self._last_in.get(operator)
        if out is None or in_ is None:
            return out or in_
        return out if out.at_s >= in_.at_s else in_

    def last_scale_out(self, operator: str) -> SizeChange | None:
        return self._last_out.get(operator)

    def last_scale_in(self, operator: str) -> SizeChange | None:
        return self._last_in.get(operator)

    def streak(self, operator: str) -> int:
        """How many changes in a row went the same way: positive for out, negative for in. Holds do not break it."""
        return self._streaks.get(operator, 0)


class History(Window):
    """A window that can be added to; it belongs to the loop."""

    __slots__ = ("retention_s",)

    def __init__(
        self,
        topology: Topology,
        retention_s: float = DEFAULT_RETENTION_S,
        objective: Objective | None = None,
        starts_at_s: float = 0.0,
    ) -> None:
        super().__init__(topology, objective, starts_at_s)
        self.retention_s = retention_s

    def observe(self, observation: Observation, doubted: Collection[str] = ()) -> None:
        """Add an observation, completed by earlier ones; it is then the last of ``observations``.

        A reading that was reported before is not counted twice. Of the ``doubted`` operators, part of what the engine
        gave was refused.
        """
        for name in doubted:
            self._doubted_s[name] = observation.at_s
        before = self._observations[-1] if self._observations else None
        at_s, sizes, startups = observation.at_s, observation.instances, observation.startups
        if before is not None and not before.instances.keys() <= sizes.keys():
            missing = before.instances.keys() - sizes.keys()
            sizes = {**{name: replace(before.instances[name], stale=True) for name in missing}, **sizes}
        samples = {name: completed(sample, self.sample(name)) for name, sample in observation.samples.items()}
        observation = _observation(at_s, samples, sizes, startups)
        self._observations.append(observation)
        for name, instances in sizes.items():
            self._follow_size(name, at_s, before.instances.get(name) if before else None, instances)
        for name, sample in samples.items():
            known = self._samples[name]
            if not known or sample.at_s > known[-1].at_s:
                known.append(sample)
                if (budget := self._budgets.get(name)) is not None:
                    budget.observe(sample)
        if self._spending is not None:
            self._spending.observe(observation)
        if startups:
            self._add_startups(observation)
        self._forget(at_s - self.retention_s)

    def _follow_size(self, name: str, at_s: Instant, seen: Instances | None, instances: Instances) -> None:
        if seen is not None and seen.ready != instances.ready:
            settled_s = self._ready_since_s.get(name)
            if name not in self._unsettled_since_s or settled_s is None or at_s - settled_s > PEACE_S:
                self._unsettled_since_s[name] = at_s
            self._ready_since_s[name] = at_s
        if instances.ready >= instances.planned:
            self._short_since_s.pop(name, None)
        elif seen is None or name not in self._short_since_s or instances.ready > seen.ready:
            self._short_since_s[name] = at_s

    def restore_startup_times(self, saved: Mapping[str, JSON]) -> None:
        """Restore start-up times of earlier runs, and add those observed in this one."""
        self._startup_times = {
            name: StartupTimes.from_json(saved[name]) if name in saved else StartupTimes() for name in self.operators
        }
        for observation in self._observations:
            self._add_startups(observation)

    def _add_startups(self, observation: Observation) -> None:
        for name, startups in observation.startups.items():
            for startup in startups:
                self._startup_times[name].add(startup)

    def saved_budgets(self) -> dict[str, JSON]:
        """Return the counts of the budgets and the money spent, to continue after a restart."""
        saved: dict[str, JSON] = {"budgets": {name: keeper.to_json() for name, keeper in self._budgets.items()}}
        if self._spending is not None:
            saved["spending"] = self._spending.to_json()
        return saved

    def restore_budgets(self, saved: Mapping[str, JSON]) -> list[str]:
        """Restore saved counts and add later readings; returns the reasons for those that cannot be restored."""
        # Start from zero: readings of this run were counted already and must not count twice.
        self._budgets = _budgets_of(self.topology, self._objective)
        self._spending = _spending_of(self.topology, self._objective)
        refused = []
        budgets, spending = saved.get("budgets", {}), saved.get("spending")
        known: list[tuple[BudgetKeeper | SpendingKeeper, JSON]] = [
            (keeper, budgets[name]) for name, keeper in self._budgets.items() if name in budgets
        ]
        if self._spending is not None and spending is not None:
            known.append((self._spending, spending))
        for keeper, state in known:
            try:
                keeper.restore(state)
            except StateError as error:
                refused.append(str(error))
        for name, keeper in self._budgets.items():
            for sample in self._samples[name]:
                keeper.observe(sample)
        if self._spending is not None:
            for observation in self._observations:
                self._spending.observe(observation)
        return refused

    def record(self, decision: Decision) -> None:
        """Add a decision that was given to the engine."""
        self._decisions.append(decision)
        for name, verdict in decision.verdicts.items():
            if verdict.change == 0:
                continue
            direction = 1 if verdict.change > 0 else -1
            last = self._last_out if direction > 0 else self._last_in
            last[name] = SizeChange(decision.at_s, verdict)
            if direction > 0 and name in self._short_since_s:
                # Instances requested now get their own time to start.
                self._short_since_s[name] = decision.at_s
            streak = self._streaks.get(name, 0)
            self._streaks[name] = streak + direction if streak * direction > 0 else direction

    def _forget(self, before_s: Instant) -> None:
        observations, decisions = self._observations, self._decisions
        while observations[0].at_s < before_s:
            observations.popleft()
        while decisions and decisions[0].at_s < before_s:
            decisions.popleft()
        for samples in self._samples.values():
            # The newest reading stays, however old: it carries its age.
            while len(samples) > 1 and samples[0].at_s < before_s:
                samples.popleft()


def busy_instances(window: Window, operator: str, span_s: float) -> float | None:
    """How many instances would have been busy all the time, had they done just what arrived in the last span.

    ``None`` where that is not known.
    """
    newest = window.sample(operator)
    before = None if newest is None else window.sample_at(operator, newest.at_s - span_s)
    ready = mean_ready(window, operator, span_s)
    if newest is None or before is None or not ready:
        return None
    arrived, done = _more(before.arrived, newest.arrived), _more(before.done, newest.done)
    busy_s, available_s = _more(before.busy_s, newest.busy_s), _more(before.available_s, newest.available_s)
    if arrived == 0:
        return 0.0
    if not done or not busy_s or not available_s or arrived is None:
        return None
    return ready * min(1.0, busy_s / available_s) * arrived / done


def _more(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else float(after - before)


def mean_ready(window: Window, operator: str, span_s: float) -> float:
    """Return the ready instances of the last span, averaged over observations."""
    sizes: list[int] = []
    for observation in reversed(window.observations):
        if sizes and observation.at_s < window.observations[-1].at_s - span_s:
            break
        if (instances := observation.instances.get(operator)) is not None:
            sizes.append(instances.ready)
    return sum(sizes) / len(sizes) if sizes else 0.0


def _budgets_of(topology: Topology, objective: Objective | None) -> dict[str, BudgetKeeper]:
    slos = {} if objective is None else {name: objective.slo_of(name) for name in topology.operators}
    return {name: BudgetKeeper(slo) for name, slo in slos.items()}


def _spending_of(topology: Topology, objective: Objective | None) -> SpendingKeeper | None:
    prices = {} if objective is None else objective.prices(topology)
    return SpendingKeeper(prices, objective.cost if objective else None) if prices else None


def _at_s(sample: Sample) -> Instant:
    return sample.at_s


_OF_NO_BATCH: Mapping[str, float | None] = {
    "processed_rate_per_s": None,
    "processing_time_s": 0.0,
    "scheduling_delay_s": 0.0,
}
"""An operator that has nothing to do would be through with a batch at once."""
_FIELDS = tuple(field.name for field in fields(Sample))
_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_all_of = attrgetter(*_FIELDS)
_sample = quickly(Sample)
_OF_NEWEST_BATCH = ("processed_rate_per_s", "processing_time_s", "scheduling_delay_s", "trigger_interval_s")


def completed(sample: Sample, before: Sample | None) -> Sample:
    """Complete a reading by the rates that follow from it and the previous one."""
    found: dict[str, float | None] = {}
    if sample.backlog is None and sample.arrived is not None and sample.done is not None:
        found["backlog"] = max(0.0, float(sample.arrived - sample.done))
    if before is not None and sample.at_s > before.at_s:
        elapsed_s = sample.at_s - before.at_s
        found["input_rate_per_s"] = _rate(before.arrived, sample.arrived, elapsed_s)
        found["output_rate_per_s"] = _rate(before.emitted, sample.emitted, elapsed_s)
        found["utilization"] = _utilization(sample, before)
    if sample.batches:
        found |= _of_batches(sample.batches)
    elif sample.batch_ended_s is not None and before is not None:
        # No batch has ended since: the values of the newest one still hold.
        found |= {name: getattr(before, name) for name in _OF_NEWEST_BATCH}
    made = _with(sample, found) if found else sample
    is_idle = sample.batch_ended_s is not None and not sample.batches and made.is_idle
    return _with(sample, {**found, **_OF_NO_BATCH}) if is_idle else made


def _with(sample: Sample, found: Mapping[str, float | None]) -> Sample:
    # dataclasses.replace reads field by field, which is slow for a reading of many fields.
    values: list[JSON] = list(_all_of(sample))
    changed = False
    for name, value in found.items():
        place = _PLACES[name]
        if value is not None and values[place] is None:
            values[place] = value
            changed = True
    return _sample(*values) if changed else sample


def busy_span_s(batches: Iterable[Batch]) -> float:
    """How long at least one of the batches was running: those of several queries share the slots.

    >>> busy_span_s([Batch(0, 4, 10), Batch(2, 6, 10), Batch(8, 9, 10)])
    7.0
    """
    total_s, until_s = 0.0, float("-inf")
    for batch in sorted(batches, key=attrgetter("started_s")):
        total_s += max(0.0, batch.ended_s - max(batch.started_s, until_s))
        until_s = max(until_s, batch.ended_s)
    return total_s


def _of_batches(batches: tuple[Batch, ...]) -> dict[str, float | None]:
    newest = max(batches, key=lambda batch: batch.ended_s)
    full = [batch for batch in batches if batch.records]
    busy_s = busy_span_s(full)
    return {
        "processed_rate_per_s": sum(batch.records for batch in full) / busy_s if busy_s > 0 else None,
        "processing_time_s": newest.processing_time_s,
        "scheduling_delay_s": newest.scheduling_delay_s,
        "trigger_interval_s": newest.trigger_interval_s or None,
    }


def _rate(before: float | None, after: float | None, elapsed_s: float) -> float | None:
    # A counter that decreased was reset: the difference means nothing.
    return None if before is None or after is None or after < before else float((after - before) / elapsed_s)


def _utilization(sample: Sample, before: Sample) -> float | None:
    now_s, then_s = (sample.busy_s, sample.available_s), (before.busy_s, before.available_s)
    if now_s[0] is None or now_s[1] is None or then_s[0] is None or then_s[1] is None:
        return before.utilization if sample.batch_ended_s is not None else None
    busy_s, available_s = now_s[0] - then_s[0], now_s[1] - then_s[1]
    if available_s <= 0 or busy_s < 0:
        return before.utilization  # Both grow at the end of a batch only.
    return float(min(1.0, busy_s / available_s))
