"""The gate between every engine and the window: a reading that cannot be true never reaches a policy.

It judges field by field. A value that is not finite, negative, out of range or dated in the future is refused and
becomes *missing*. A counter that falls, or grows by more than instances can have done or the source can have sent, is
quarantined: it is missing until the next reading either returns to the old course or continues the new one. Then the
counter was reset, and is rebased on its own, so that what leaves the gate never falls. Readings in which nothing moves
although records wait are withheld. What passes is not touched: a true reading leaves the gate as the object it was.

>>> gate = ReadingGate()
>>> def passed(at_s: float, done: float) -> float | None:
...     seen = Observation(at_s, {"job": Sample("job", at_s, done=done)}, {"job": Instances(1, 1, 1)})
...     return gate.check(seen).observation.samples["job"].done
>>> [passed(at_s, done) for at_s, done in enumerate((10.0, 12.0, float("nan"), 14.0, 1.0, 3.0, 4.0))]
[10.0, 12.0, None, 14.0, None, 16.0, 17.0]
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from headgate.core.errors import EngineError
from headgate.core.types import COUNTERS, Batch, Event, Instances, Instant, Observation, Sample, Severity, Startup
from headgate.core.units import format_duration, plain

AHEAD_S = 1.0
"""A reading may be dated this much later than its observation: two clocks never agree exactly."""
OLDEST_S = 7 * 86400.0
"""An older reading says nothing about the job."""
LONGEST_S = 10 * 365 * 86400.0
"""No record waits longer, and no batch takes longer."""
HIGHEST = 1e18
"""More records or seconds cannot be counted exactly."""
MOST_INSTANCES = 100_000
HIGHEST_UTILIZATION = 2.0
"""A share above 1 can be a rounding or a boosted core; more cannot be a share."""
JUMP = 100.0
"""A counter that grows this many times faster than ever before is quarantined."""
SLOTS_JUMP = 4.0
"""The same for the seconds that instances offer: these follow from the number of instances."""
LEARNED_AFTER = 5
"""Increments of a counter after which its highest rate counts as learned."""
SLACK = 20.0
"""Records by which counters that are read one after the other may disagree."""
NOISE = 1e-6
"""A counter that falls by no more than this, or this share of it, was rounded."""
RATE_OFF = 10.0
"""A rate of arrivals that is off by this factor contradicts the counter of arrivals."""
AGREEING = 10
"""Readings in a row in which backlog and counters agreed, after which a disagreement is a contradiction."""
USUALLY = 0.9
"""A counter that grew with this share of the readings grows all the time."""
ROUNDED = 1.001
"""A growth that is larger by so little is no faster than one before."""
FROZEN_AFTER_S = 30.0
"""Readings that have not changed for this long, although records wait, are frozen."""
REMEMBERED = 720
"""Readings, an hour of them at the usual interval, among which one that comes again is recognised."""
REPEAT_AFTER_S = 60.0
"""A refusal that lasts is reported again after this time."""


class Refusal(StrEnum):
    """Why something did not pass; the kinds of the gate's events."""

    IMPOSSIBLE = "reading-refused"
    """Not finite, negative, out of range, dated in the future or far in the past."""
    QUARANTINED = "reading-quarantined"
    """A counter fell or jumped; the next readings show whether that was real."""
    INCONSISTENT = "reading-inconsistent"
    """Two fields contradict each other."""
    FROZEN = "reading-frozen"
    """Nothing moves although records wait."""
    OLD = "reading-old"
    """What was read before, dated later."""
    REBASED = "counter-rebased"
    """A quarantined counter continued on its new course: it was reset."""


class GateResult(NamedTuple):
    """What passed the gate, and what is to be reported of the rest."""

    observation: Observation
    events: tuple[Event, ...] = ()
    doubted: frozenset[str] = frozenset()
    """Operators whose newest reading is suspect or was refused in part, and not only a metric that is never right."""


class ReadingGate:
    """Checks the observations of one engine, oldest first."""

    def __init__(self) -> None:
        self._operators: dict[str, _OperatorGate] = {}
        self._reported_s: dict[tuple[str, str, Refusal], Instant] = {}

    def check(self, seen: Observation) -> GateResult:
        """Return what of an observation can be true; ``EngineError`` where it has no time."""
        at_s, operators = seen.at_s, self._operators
        if not -HIGHEST < at_s < HIGHEST:
            raise EngineError(f"an observation is dated {at_s!r}; a finite time in seconds is needed.")
        refused: list[_Finding] = []
        is_same = True
        for name, size in seen.instances.items():
            operator = operators.get(name) or self._added(name)
            is_same &= size is operator.instances or operator.check_size(size, refused) is size
        for name, sample in seen.samples.items():
            operator = operators.get(name) or self._added(name)
            is_same &= sample is operator.check(sample, at_s, refused)
        startups = _possible_startups(seen.startups, at_s, refused) if seen.startups else seen.startups
        if is_same and startups is seen.startups and not refused:
            return GateResult(seen)
        doubted = frozenset(finding.operator for finding in refused if finding.is_doubt)
        events = tuple(self._events(refused, at_s))
        if is_same and startups is seen.startups:
            return GateResult(seen, events, doubted)
        samples = {name: operators[name].passed_sample for name in seen.samples}
        sizes = {name: operators[name].passed_size for name in seen.instances}
        passed = Observation(at_s, _known(samples), _known(sizes), startups)
        return GateResult(passed, events, doubted)

    def _added(self, name: str) -> _OperatorGate:
        self._operators[name] = operator = _OperatorGate(name)
        return operator

    def _events(self, refused: Iterable[_Finding], at_s: Instant) -> Iterable[Event]:
        """Yield an event per finding, but not again within a minute for a field that stays wrong."""
        for finding in refused:
            if not finding.why:
                continue
            key = (finding.operator, finding.field, finding.kind)
            if not 0 <= at_s - self._reported_s.get(key, -math.inf) < REPEAT_AFTER_S:
                self._reported_s[key] = at_s
                severity = Severity.INFO if finding.kind is Refusal.REBASED else Severity.WARNING
                numbers = {"operator": finding.operator, "field": finding.field}
                yield Event(at_s, finding.kind, f"{finding.operator}: {finding.why}", numbers, severity)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A field that did not pass."""

    operator: str
    field: str
    kind: Refusal
    why: str
    """Empty where it is a suspicion, which is not reported."""

    @property
    def is_doubt(self) -> bool:
        """Whether the reading as a whole is doubtful: not where a gauge was never right, or a counter is explained."""
        return self.kind is not Refusal.REBASED and not (self.kind is Refusal.IMPOSSIBLE and self.field in _OPTIONAL)


_GAUGES: dict[str, float] = {
    "backlog": HIGHEST,
    "latency_s": LONGEST_S,
    "running_s": LONGEST_S,
    "useful_instances": HIGHEST,
    "skew": HIGHEST,
    "input_rate_per_s": HIGHEST,
    "processed_rate_per_s": HIGHEST,
    "output_rate_per_s": HIGHEST,
    "processing_time_s": LONGEST_S,
    "scheduling_delay_s": LONGEST_S,
    "trigger_interval_s": LONGEST_S,
    "utilization": HIGHEST_UTILIZATION,
}
"""The highest possible value of each gauge; the lowest is 0."""
_OPTIONAL = frozenset({"useful_instances", "skew", "output_rate_per_s", "metrics", "parts", "startups"})
_NAMES_AND_LIMITS = tuple(_GAUGES.items())
_gauges_of = attrgetter(*_GAUGES)
_counters_of = attrgetter(*COUNTERS)
_moving = attrgetter(*COUNTERS, "backlog", "latency_s", "running_s", "batch_ended_s")


class _Counter:
    """One counter of one operator: its trusted course, and a value that waits for confirmation."""

    __slots__ = (
        "at_s",
        "candidate",
        "changed_s",
        "grown",
        "is_irregular",
        "learned",
        "missed",
        "name",
        "offset",
        "per_s",
        "scale",
        "value",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: float | None = None
        """The newest trusted value, as the engine counts."""
        self.at_s = self.changed_s = -math.inf
        """When it was read, and when it last grew."""
        self.offset = 0.0
        """What resets have hidden: added to what the engine counts."""
        self.per_s = 0.0
        """The fastest growth so far, per unit of ``scale`` and second since the growth before it."""
        self.scale = 1
        self.learned = 0
        """The number of increments that is the highest of."""
        self.grown = 0.0
        """By how much it grew with the newest reading; 0 where that has no trusted value."""
        self.candidate: tuple[float, Instant] | None = None
        self.is_irregular = False
        """Whether a value needs more than a look: some were refused, or are counted from another start."""
        self.missed = False
        """Whether the newest trusted value is older than the reading before this one."""

    def limit(self, at_s: Instant, times: float = JUMP, since_s: Instant | None = None) -> float:
        """By how much it can have grown until a time, since it last did or another time, by what it has done before."""
        if self.learned < LEARNED_AFTER:
            return math.inf
        elapsed_s = at_s - (self.changed_s if since_s is None else since_s)
        return times * self.scale * self.per_s * max(1.0, elapsed_s) + SLACK

    def is_usual(self, value: float, at_s: Instant) -> bool:
        """Whether a value continues a regular course no faster than ever; then it is trusted. Most values are."""
        before = self.value
        if before is None or self.is_irregular:
            return False
        grown = value - before
        if grown == 0 and self.name != "arrived":
            self.grown = 0.0
        elif 0 < grown <= ROUNDED * self.scale * self.per_s * (at_s - self.changed_s):
            self.grown = grown
            self.learned += 1
            self.value, self.changed_s = value, at_s
        else:
            return False
        self.at_s = at_s
        return True

    def trust(self, value: float, at_s: Instant) -> None:
        before = self.value
        self.grown = 0.0
        if before is None:
            self.changed_s = at_s
        elif value > before:
            self.grown = value - before
            elapsed_s = at_s - self.changed_s
            if elapsed_s > 0:
                per_s = self.grown / elapsed_s / self.scale
                self.per_s = max(self.per_s, per_s)
                self.learned += 1
            self.changed_s = at_s
        self.value, self.at_s, self.candidate = value, at_s, None
        self.is_irregular = self.missed or bool(self.offset)

    def refuse(self) -> None:
        self.grown, self.missed, self.is_irregular = 0.0, True, True

    def confirms(self, value: float, at_s: Instant, least: float, limit: float) -> bool:
        """Whether a value continues the course of the quarantined one; then that is the course from now on."""
        if self.candidate is None or self.value is None:
            return False
        first, first_s = self.candidate
        if not (at_s > first_s and least <= value - first <= limit):
            return False
        self.offset += self.value - first
        self.value, self.at_s, self.changed_s, self.missed = first, first_s, first_s, False
        return True


class _OperatorGate:
    """What is known of one operator's readings."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instances: Instances | None = None
        """The newest known size."""
        self.passed_size: Instances | None = None
        self.passed_sample: Sample | None = None
        """What passed of the newest observation."""
        self._counters = tuple(_Counter(counter) for counter in COUNTERS)
        by_name = {counter.name: counter for counter in self._counters}
        self._arrived, self._done = by_name["arrived"], by_name["done"]
        self._busy, self._available = by_name["busy_s"], by_name["available_s"]
        # The seconds that instances offer follow from the most of them since these seconds last grew.
        self._backlog: float | None = None
        self._others = math.inf
        """Records that arrived, are not done and are not in the backlog, such as those of another operator's."""
        self._agreeing = 0
        """Readings in a row in which their number did not change."""
        self._suspect_backlog: float | None = None
        """A backlog that was refused; the next one may confirm it."""
        self._least_gap = math.inf
        """The least that arrived and done records have differed by: with it, nothing waited."""
        self._is_estimated = True
        """Whether the reading before this one extrapolated what had arrived."""
        self._is_rate_unlike = False
        """Whether the rate of arrivals and their counter disagreed at the reading before this one."""
        self._raw: Sample | None = None
        self._moved_s = -math.inf
        self._longest_still_s = 0.0
        """The longest time between two readings in which something had moved."""
        self._recent: deque[int] = deque(maxlen=REMEMBERED)
        """Hashes of the counters of earlier readings."""
        self._waited = 0.0
        """How many records can have waited when ``done`` had its newest trusted value."""
        self._readings = 0
        """Readings in which something had moved."""
        self._done_with_batches: float | None = None
        self._most_records = 0.0
        self._batch_per_s = 0.0
        self._batches_learned = 0
        self._fast_per_s = 0.0
        """Of a batch that was refused because it was too fast."""

    # --------------------------------------------------------------------------------------------------------- sizes

    def check_size(self, instances: Instances, refused: list[_Finding]) -> Instances | None:
        """Return the size, or the last known size as stale where it cannot be true."""
        for field in ("planned", "requested", "ready"):
            count = getattr(instances, field)
            if isinstance(count, float) or not 0 <= count <= MOST_INSTANCES:
                why = f"{count!r} {field} instances are not possible; 0 to {MOST_INSTANCES:,} are"
                refused.append(_Finding(self.name, field, Refusal.IMPOSSIBLE, why))
                self.passed_size = None if self.instances is None else replace(self.instances, stale=True)
                self.instances = None if self.passed_size is None else self.passed_size
                return self.passed_size
        self.instances = self.passed_size = instances
        self._available.scale = max(self._available.scale, instances.ready, instances.planned)
        return instances

    # ------------------------------------------------------------------------------------------------------ readings

    def check(self, sample: Sample, now_s: Instant, refused: list[_Finding]) -> Sample | None:
        """Return the sample, what is left of it, or ``None`` where it must not count at all."""
        before, at_s = self._raw, sample.at_s
        if sample is before:
            return self.passed_sample
        self.passed_sample = None
        if not now_s - OLDEST_S <= at_s <= now_s + AHEAD_S:
            self._refuse(refused, "at_s", Refusal.IMPOSSIBLE, f"the reading is dated {_ago(now_s - at_s)}")
            return None
        if not 0 <= sample.age_s <= LONGEST_S:
            self._refuse(refused, "age_s", Refusal.IMPOSSIBLE, f"a reading cannot rest on news {sample.age_s!r} s old")
            return None
        if before is not None and at_s < before.at_s:
            return None  # It was overtaken on its way: the window has a newer reading.
        self._raw = sample
        has_moved = before is None or sample.done != before.done or _moving(sample) != _moving(before)
        if self._is_old(sample, refused) if has_moved else self._is_frozen(sample, refused):
            return None
        changes: dict[str, Any] = {}
        if not _has_possible_gauges(sample):
            self._check_gauges(sample, changes, refused)
        self._check_counters(sample, changes, refused)
        if sample.batches:
            self._check_batches(sample, changes, refused)
        self.passed_sample = replace(sample, **changes) if changes else sample
        self._is_estimated = sample.age_s > AHEAD_S
        if sample.backlog is not None and "backlog" not in changes:
            self._backlog = sample.backlog
        return self.passed_sample

    def _is_frozen(self, sample: Sample, refused: list[_Finding]) -> bool:
        """Whether a reading that equals the one before it has to be withheld; that is reported only where it lasts."""
        still_s = sample.at_s - self._moved_s
        if still_s < min(FROZEN_AFTER_S, self._longest_still_s):
            return False
        if self._always_moves(sample) or (
            still_s >= FROZEN_AFTER_S and (sample.backlog or sample.running_s is not None)
        ):
            why = f"nothing has moved for {format_duration(still_s)} although time passes"
            self._refuse(refused, "at_s", Refusal.FROZEN, why if still_s >= FROZEN_AFTER_S else "")
            return True
        return False

    def _is_old(self, sample: Sample, refused: list[_Finding]) -> bool:
        """Whether a reading is an earlier one, dated now: its counters fell, but not to what a restart would leave."""
        counters, done, before = hash(_counters_of(sample)), sample.done, self._done.value
        if done is not None and before is not None and self._done.limit(sample.at_s, 2.0) < done < before:
            if counters in self._recent:
                self._refuse(refused, "at_s", Refusal.OLD, "the counters are those of an earlier reading")
                return True
        else:
            self._recent.append(counters)
        if self._readings:
            self._longest_still_s = max(self._longest_still_s, sample.at_s - self._moved_s)
        self._moved_s = sample.at_s
        self._readings += 1
        return False

    def _always_moves(self, sample: Sample) -> bool:
        """Whether a reading cannot be equal to the one before it, because ready instances offer seconds."""
        # Between batches nothing is counted, so only where there are none does an idle job's time still pass.
        is_continuous = sample.batch_ended_s is None and self._available.learned >= USUALLY * self._readings
        return is_continuous and self._readings > AGREEING and self.instances is not None and self.instances.ready > 0

    def _check_gauges(self, sample: Sample, changes: dict[str, Any], refused: list[_Finding]) -> None:
        for (name, highest), value in zip(_NAMES_AND_LIMITS, _gauges_of(sample), strict=True):
            if value is not None and not 0 <= value <= highest:
                changes[name] = None
                self._refuse(refused, name, Refusal.IMPOSSIBLE, f"{name} cannot be {value!r}")
        ended_s = sample.batch_ended_s
        if ended_s is not None and not sample.at_s - LONGEST_S <= ended_s <= sample.at_s + AHEAD_S:
            changes["batch_ended_s"] = None
            self._refuse(refused, "batch_ended_s", Refusal.IMPOSSIBLE, f"batch_ended_s cannot be {ended_s!r}")
        if sample.metrics and not all(map(_is_metric, sample.metrics.values())):
            finite = {name: value if _is_metric(value) else None for name, value in sample.metrics.items()}
            changes["metrics"] = finite
            self._refuse(refused, "metrics", Refusal.IMPOSSIBLE, "a metric is not a finite number")
        if sample.parts and not all(map(_is_possible, sample.parts.values())):
            changes["parts"] = {name: part for name, part in sample.parts.items() if _is_possible(part)}
            self._refuse(refused, "parts", Refusal.IMPOSSIBLE, "the reading of a part is not possible")

    # ------------------------------------------------------------------------------------------------------ counters

    def _check_counters(self, sample: Sample, changes: dict[str, Any], refused: list[_Finding]) -> None:
        at_s, before_s = sample.at_s, self._arrived.at_s
        for counter, value in zip(self._counters, _counters_of(sample), strict=True):
            if value is None:
                counter.grown = 0.0
                continue
            if counter.is_usual(value, at_s):
                continue
            trusted = self._trusted(counter, value, sample, refused)
            if trusted is None:
                counter.refuse()
                changes[counter.name] = None
                continue
            if counter.missed:
                self._bridge(counter, trusted, sample, changes)
            counter.trust(trusted, at_s)
            if counter.offset or trusted is not value:
                changes[counter.name] = trusted + counter.offset
        if self._available.grown and self.instances is not None:
            self._available.scale = max(1, self.instances.ready, self.instances.planned)
        self._check_backlog(sample, changes, refused)
        if sample.input_rate_per_s is not None and sample.batch_ended_s is None:
            self._check_rate(sample.input_rate_per_s, sample, before_s, changes, refused)

    def _trusted(self, counter: _Counter, value: float, sample: Sample, refused: list[_Finding]) -> float | None:
        """Return the value that counts, as the engine counts; ``None`` where it must not count yet."""
        name, before = counter.name, counter.value
        if not 0 <= value <= HIGHEST:
            self._refuse(refused, name, Refusal.IMPOSSIBLE, f"{name} cannot be {value!r}")
            return None
        if before is None:
            return value
        least, limit = self._least(counter, sample), self._limit(counter, sample)
        if least <= value - before <= limit:
            return value
        if counter is self._done and counter.candidate is None:
            self._waited = self._waiting()
        if -NOISE * max(1.0, before) <= value - before < 0:
            return before
        change = f"{name} went from {plain(before)} to {plain(value)}"
        if counter.candidate is not None:
            limit = self._limit(counter, sample, counter.candidate[1])
        if counter.confirms(value, sample.at_s, least, limit):
            self._least_gap = math.inf
            self._refuse(refused, name, Refusal.REBASED, f"{change} and continues there: it was reset")
            return value
        counter.candidate = (value, sample.at_s)
        self._refuse(refused, name, Refusal.QUARANTINED, f"{change}: not counted until the next readings confirm it")
        return None

    def _least(self, counter: _Counter, sample: Sample) -> float:
        """By how much a counter must have grown: what was done, and had not waited, has arrived."""
        done = self._done
        if counter is not self._arrived or sample.done is None or done.value is None or self._backlog is None:
            return 0.0
        grown = sample.done - done.value
        if not 0 < grown <= done.limit(sample.at_s, 2.0) < math.inf:
            return 0.0
        waited = max(self._backlog, self._gap() - self._least_gap)
        return max(0.0, (grown - waited) / 2 - SLACK)

    def _limit(self, counter: _Counter, sample: Sample, since_s: Instant | None = None) -> float:
        """By how much a counter can have grown since its newest trusted value, or a quarantined one read ``since_s``.

        What is possible since the quarantined value must not grow with the time in quarantine: otherwise any course
        would be confirmed in the end.
        """
        at_s = sample.at_s
        if counter is self._available:
            return counter.limit(at_s, SLOTS_JUMP, since_s)
        if counter is self._busy:
            offered = self._available
            if offered.learned < LEARNED_AFTER:
                return math.inf
            elapsed_s = at_s - (counter.changed_s if since_s is None else since_s)
            return SLOTS_JUMP * offered.per_s * offered.scale * max(1.0, elapsed_s) + SLACK
        if counter is self._arrived:
            limit = counter.limit(at_s, since_s=since_s)
            if sample.backlog is None or sample.done is None or self._backlog is None or self._done.value is None:
                return limit
            # What has arrived waits or is done: a burst of any size is believed where these agree.
            explained = max(0.0, sample.backlog - self._backlog) + max(0.0, sample.done - self._done.value)
            return max(limit, 2 * explained + SLACK)
        if counter.name in ("done", "late") and self._backlog is not None and self._arrived.at_s == at_s:
            waited = self._waiting() if since_s is None else max(self._backlog, self._waited)
            return 2 * (self._arrived.grown + waited) + SLACK
        return counter.limit(at_s, since_s=since_s)

    def _waiting(self) -> float:
        """How many records can have waited at the reading before this one."""
        return max(self._backlog or 0.0, self._gap() - self._least_gap)

    def _gap(self) -> float:
        """By how much arrived and done records differ, as the engine counts them."""
        arrived, done = self._arrived, self._done
        if arrived.value is None or done.value is None:
            return 0.0
        return arrived.value - arrived.grown - done.value

    def _bridge(self, counter: _Counter, value: float, sample: Sample, changes: dict[str, Any]) -> None:
        """Give the rate over the readings without this counter, which the window cannot know."""
        counter.missed = False
        rate = {"arrived": "input_rate_per_s", "emitted": "output_rate_per_s"}.get(counter.name)
        elapsed_s = sample.at_s - counter.at_s
        if rate is not None and getattr(sample, rate) is None and elapsed_s > 0:
            changes[rate] = float((value - (counter.value or 0.0)) / elapsed_s)

    def _check_rate(
        self, rate_per_s: float, sample: Sample, before_s: Instant, changes: dict[str, Any], refused: list[_Finding]
    ) -> None:
        """Hold a rate against what was counted; one that contradicts it twice in a row has another meaning."""
        elapsed_s = sample.at_s - before_s
        if self._arrived.at_s != sample.at_s or not 0 < elapsed_s < math.inf or "input_rate_per_s" in changes:
            return
        records, counted = rate_per_s * elapsed_s, self._arrived.grown
        was_unlike = self._is_rate_unlike
        self._is_rate_unlike = not counted / RATE_OFF - SLACK <= records <= RATE_OFF * counted + SLACK
        if self._is_rate_unlike and not was_unlike:
            changes["input_rate_per_s"] = None
            why = (
                f"{plain(rate_per_s)} records/s do not agree with {plain(counted)} that arrived in {plain(elapsed_s)} s"
            )
            self._refuse(refused, "input_rate_per_s", Refusal.INCONSISTENT, why)

    def _check_backlog(self, sample: Sample, changes: dict[str, Any], refused: list[_Finding]) -> None:
        """Hold the backlog against what arrived and what was done, and note the least of their differences."""
        arrived, done, at_s = self._arrived, self._done, sample.at_s
        if arrived.at_s != at_s or done.at_s != at_s or arrived.value is None or done.value is None:
            return
        self._least_gap = min(self._least_gap, arrived.value - done.value)
        backlog, before = sample.backlog, self._backlog
        if backlog is None:
            if arrived.offset != done.offset:
                changes["backlog"] = max(0.0, float(arrived.value - done.value))
            return
        if before is None or "backlog" in changes or self._is_estimated or sample.age_s > AHEAD_S:
            return
        slack = 0.1 * before + SLACK
        others = arrived.value - done.value - backlog
        agrees, self._others = abs(others - self._others) <= slack, others
        if agrees or self._agreeing < AGREEING:
            # Where the backlog is not what arrived and was not done, as behind another operator's, it proves nothing.
            self._agreeing = self._agreeing + 1 if agrees else 0
            return
        if before - backlog > 3 * done.grown + slack or backlog - before > 3 * arrived.grown + slack:
            suspect, self._suspect_backlog = self._suspect_backlog, backlog
            if suspect is not None and abs(backlog - suspect) <= 3 * (arrived.grown + done.grown) + slack:
                self._agreeing = 0
                return
            self._others -= before + arrived.grown - done.grown - backlog
            self._backlog = max(0.0, before + arrived.grown - done.grown)
            changes["backlog"] = None
            why = (
                f"a backlog of {plain(backlog)} after {plain(before)} does not agree with "
                f"{plain(arrived.grown)} records that arrived and {plain(done.grown)} that were done"
            )
            self._refuse(refused, "backlog", Refusal.INCONSISTENT, why)

    # ------------------------------------------------------------------------------------------------------- batches

    def _check_batches(self, sample: Sample, changes: dict[str, Any], refused: list[_Finding]) -> None:
        batches = tuple(batch for batch in sample.batches if _is_possible_batch(batch, sample.at_s))
        if len(batches) != len(sample.batches):
            why = f"{len(sample.batches) - len(batches)} of {len(sample.batches)} batches are not possible"
            self._refuse(refused, "batches", Refusal.IMPOSSIBLE, why)
        records = sum(batch.records for batch in batches)
        done = self._done
        if done.at_s == sample.at_s and done.value is not None:
            before = self._done_with_batches
            self._done_with_batches = done.value
            if before is not None and records > 2 * (max(0.0, done.value - before) + self._most_records) + SLACK:
                why = f"batches of {plain(records)} records ended, and {plain(done.value - before)} records were done"
                self._refuse(refused, "batches", Refusal.INCONSISTENT, why)
                batches = ()
        batches = self._plausible(batches, refused)
        if len(batches) != len(sample.batches):
            changes["batches"] = batches

    def _plausible(self, batches: tuple[Batch, ...], refused: list[_Finding]) -> tuple[Batch, ...]:
        """Return the batches that were not far faster than all before, unless two in a row are."""
        found = []
        for batch in batches:
            took_s = batch.ended_s - batch.started_s
            if batch.records and took_s > 0:
                per_s = batch.records / took_s
                if self._batches_learned >= LEARNED_AFTER and per_s > JUMP * self._batch_per_s:
                    confirmed, self._fast_per_s = per_s <= JUMP * self._fast_per_s, per_s
                    if not confirmed:
                        why = f"a batch of {plain(batch.records)} records in {format_duration(took_s)} is too fast"
                        self._refuse(refused, "batches", Refusal.QUARANTINED, why)
                        continue
                self._fast_per_s = 0.0
                self._batch_per_s = max(self._batch_per_s, per_s)
                self._batches_learned += 1
            self._most_records = max(self._most_records, batch.records)
            found.append(batch)
        return batches if len(found) == len(batches) else tuple(found)

    def _refuse(self, refused: list[_Finding], field: str, kind: Refusal, why: str) -> None:
        refused.append(_Finding(self.name, field, kind, why))


T = TypeVar("T")


def _known(found: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in found.items() if value is not None}


def _has_possible_gauges(sample: Sample) -> bool:
    """Whether all gauges are in range; written out, because it is done for every reading."""
    ended_s = sample.batch_ended_s
    return (
        ((value := sample.backlog) is None or 0 <= value <= HIGHEST)
        and ((value := sample.latency_s) is None or 0 <= value <= LONGEST_S)
        and ((value := sample.running_s) is None or 0 <= value <= LONGEST_S)
        and ((value := sample.useful_instances) is None or 0 <= value <= HIGHEST)
        and ((value := sample.skew) is None or 0 <= value <= HIGHEST)
        and ((value := sample.input_rate_per_s) is None or 0 <= value <= HIGHEST)
        and ((value := sample.processed_rate_per_s) is None or 0 <= value <= HIGHEST)
        and ((value := sample.output_rate_per_s) is None or 0 <= value <= HIGHEST)
        and ((value := sample.processing_time_s) is None or 0 <= value <= LONGEST_S)
        and ((value := sample.scheduling_delay_s) is None or 0 <= value <= LONGEST_S)
        and ((value := sample.trigger_interval_s) is None or 0 <= value <= LONGEST_S)
        and ((value := sample.utilization) is None or 0 <= value <= HIGHEST_UTILIZATION)
        and (ended_s is None or sample.at_s - LONGEST_S <= ended_s <= sample.at_s + AHEAD_S)
        and not sample.metrics
        and not sample.parts
    )


def _is_metric(value: float | None) -> bool:
    return value is None or -HIGHEST < value < HIGHEST


def _is_possible(part: Sample) -> bool:
    """Whether all numbers of the reading of a part are possible."""
    values = [*_gauges_of(part), *_counters_of(part), part.age_s]
    is_dated = -HIGHEST < part.at_s < HIGHEST
    return is_dated and all(value is None or 0 <= value <= HIGHEST for value in values)


def _is_possible_batch(batch: Batch, at_s: Instant) -> bool:
    first_s = at_s - LONGEST_S
    return (
        first_s <= batch.started_s <= batch.ended_s <= at_s + AHEAD_S
        and 0 <= batch.records <= HIGHEST
        and (batch.oldest_s is None or first_s <= batch.oldest_s <= at_s + AHEAD_S)
        and (batch.late is None or 0 <= batch.late <= 1.01 * batch.records + 1)
        and 0 <= batch.trigger_interval_s <= LONGEST_S
        and (batch.instances is None or 0 <= batch.instances <= MOST_INSTANCES)
    )


def _possible_startups(
    startups: Mapping[str, tuple[Startup, ...]], at_s: Instant, refused: list[_Finding]
) -> Mapping[str, tuple[Startup, ...]]:
    """Return the start-ups whose times are possible; the same mapping where all are."""
    found = {
        name: tuple(item for item in items if _is_possible_startup(item, at_s)) for name, items in startups.items()
    }
    for name, items in startups.items():
        if len(found[name]) != len(items):
            why = "the times of an instance's start are not possible"
            refused.append(_Finding(name, "startups", Refusal.IMPOSSIBLE, why))
    return startups if all(len(found[name]) == len(items) for name, items in startups.items()) else found


def _is_possible_startup(startup: Startup, at_s: Instant) -> bool:
    times_s = (startup.registered_after_s, startup.first_task_after_s, startup.warm_after_s)
    is_dated = at_s - LONGEST_S <= startup.requested_s <= at_s + AHEAD_S
    return is_dated and all(value is None or 0 <= value <= OLDEST_S for value in times_s)


def _ago(age_s: float) -> str:
    if not math.isfinite(age_s):
        return "at no time that there is"
    return f"{format_duration(age_s)} ago" if age_s >= 0 else f"{format_duration(-age_s)} in the future"
