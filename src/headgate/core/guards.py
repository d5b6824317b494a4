"""Stabilisers that wrap any policy, always in this order:

bounds → useful → strategy → step limit → hysteresis → sizes → affordable → guard times → monotonicity → pending →
recovering → blind → trusted → together → attainable

Each is a small frozen value that is called with the window and a decision. A guard either lets an operator's target
pass or replaces it, and says why in a note. Bounds come first, so that the others see a size that is possible; those
that can only hold come last, so that nothing after them can undo a hold. No guard moves a target across the current
size: it may soften a change or stop it, never turn it around. Three exceptions: a size outside the bounds must come
back, and so must a plan that the cluster does not fulfil, and a size that can no longer be paid (``affordable.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.plugins import Functions
from headgate.core.step import EachOperator
from headgate.core.types import Decision, GuardNote, Instant, Verdict
from headgate.core.units import format_duration, instances_in_words
from headgate.core.window import SizeChange, Window, busy_instances

OwnBounds: TypeAlias = Mapping[str, tuple[int, int]]
"""Fewest and most instances of the operators that have bounds of their own."""
_NONE_OWN: OwnBounds = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bounds(EachOperator):
    """Never fewer than the minimum, never more than the maximum, and a note where the maximum is not enough."""

    name: ClassVar[str] = "bounds"
    min_instances: int
    max_instances: int
    own: OwnBounds = field(default_factory=lambda: _NONE_OWN)
    objective: Objective | None = None
    """Tells whether the maximum is enough."""

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        lowest, highest = self.own.get(verdict.operator, (self.min_instances, self.max_instances))
        if verdict.target < lowest:
            return lowest, f"at least {lowest} instances"
        if verdict.target > highest:
            return highest, f"at most {highest} instances"
        if verdict.target == verdict.current == highest and self._is_violated(window, verdict.operator):
            return highest, f"the maximum of {instances_in_words(highest)} is not enough"
        return verdict.target, ""

    def _is_violated(self, window: Window, operator: str) -> bool:
        sample = window.sample(operator) if self.objective is not None else None
        if self.objective is None or sample is None:
            return False
        return bool(self.objective.slo_of(operator).violated_by(sample))


def is_capped(verdict: Verdict) -> bool:
    """Return whether an operator has its maximum, and that is not enough."""
    highest = verdict.target
    return any(
        note.guard == Bounds.name and note.after == highest and (note.before > highest or bool(note.why))
        for note in verdict.notes
        if note.before >= note.after
    )


def is_limited_by_cluster(verdict: Verdict) -> bool:
    """Return whether an operator has what its cluster was found to give, and more is wanted."""
    return any(note.guard == Attainable.name and note.after < note.before for note in verdict.notes)


@dataclass(frozen=True, slots=True)
class Useful(EachOperator):
    """Adds no instance that could find nothing to do: a job's work comes in so many pieces and no more."""

    name: ClassVar[str] = "useful"
    lets_holds_pass: ClassVar[bool] = True

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        sample = window.sample(verdict.operator)
        useful = None if sample is None else sample.useful_instances
        if useful is None or verdict.target <= max(useful, verdict.current):
            return verdict.target, ""
        target = max(useful, verdict.current)
        why = f"the job's work is in pieces that keep no more than {useful} instances busy; more could not help"
        if sample is not None and sample.skew is not None and sample.skew >= NOTABLE_SKEW:
            why = f"{why} (its fullest partition holds {sample.skew:.2g} × the mean)"
        return target, why


NOTABLE_SKEW = 2.0
"""From this on the fullest partition is worth a word."""


class StrategyKind(StrEnum):
    """How many instances a change of size is made of (azimi §4.2.5)."""

    AS_PROPOSED = "as-proposed"
    STATIC = "static"
    LINEAR = "linear"
    QUEUE_AWARE = "queue-aware"


@dataclass(frozen=True, slots=True)
class ProposedStep:
    """What a strategy sees of a change of size."""

    direction: int
    """1 to add instances, -1 to remove some."""
    instances: int
    """Before the change."""
    granularity: int
    streak: int
    """Changes in a row before this one that went the same way."""
    waiting_batches: int | None
    """Trigger intervals that the scheduling delay is long; ``None`` where it is not known."""


StepSize: TypeAlias = tuple[int, str]
"""How many instances to add or remove, and why."""
STRATEGIES: Functions[Callable[[ProposedStep], StepSize]] = Functions("strategy", "headgate.strategies")


@STRATEGIES.register(StrategyKind.AS_PROPOSED)
@STRATEGIES.register(StrategyKind.STATIC)
def _static(change: ProposedStep) -> StepSize:
    """Return always ``granularity``; what is as proposed is not changed by a strategy."""
    return change.granularity, f"static strategy, {change.granularity} at a time"


@STRATEGIES.register(StrategyKind.LINEAR)
def _linear(change: ProposedStep) -> StepSize:
    """Return 1, 2, 4, 6, 8 … times ``granularity`` for changes in a row that go the same way."""
    count = change.granularity * max(1, 2 * change.streak)
    return count, f"linear strategy, change {change.streak + 1} in a row this way"


@STRATEGIES.register(StrategyKind.QUEUE_AWARE)
def _queue_aware(change: ProposedStep) -> StepSize:
    """Add one per waiting batch, at least ``granularity``; remove ``granularity``.

    azimi calls its growth exponential, like TCP's slow start, and prints no formula; this is linear in the scheduling
    delay.
    """
    if change.direction < 0:
        return change.granularity, f"queue-aware strategy, {change.granularity} at a time"
    if change.waiting_batches is None:
        return change.granularity, "queue-aware strategy without a reading of the queue: as static"
    return (
        max(change.granularity, change.waiting_batches),
        f"queue-aware strategy, {change.waiting_batches} batches waiting",
    )


@dataclass(frozen=True, slots=True)
class Strategy(EachOperator):
    """Takes only the direction from the policy and sets how many instances to add or to remove, by a named strategy."""

    name: ClassVar[str] = "strategy"
    lets_holds_pass: ClassVar[bool] = True
    kind: str
    granularity: int
    min_instances: int
    max_instances: int
    own: OwnBounds = field(default_factory=lambda: _NONE_OWN)

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.target == verdict.current or self.kind == StrategyKind.AS_PROPOSED:
            return verdict.target, ""
        direction = 1 if verdict.target > verdict.current else -1
        streak = max(0, window.streak(verdict.operator) * direction)
        waiting = _waiting_batches(window, verdict.operator)
        count, why = STRATEGIES[self.kind](ProposedStep(direction, verdict.current, self.granularity, streak, waiting))
        lowest, highest = self.own.get(verdict.operator, (self.min_instances, self.max_instances))
        # A strategy of the user's may err: it never turns the direction.
        return max(lowest, min(highest, verdict.current + direction * max(0, count))), why


def _waiting_batches(window: Window, operator: str) -> int | None:
    sample = window.sample(operator)
    if sample is None or not sample.trigger_interval_s or sample.scheduling_delay_s is None:
        return None
    return math.ceil(sample.scheduling_delay_s / sample.trigger_interval_s)


@dataclass(frozen=True, slots=True)
class StepLimit(EachOperator):
    """No single change is larger than this."""

    name: ClassVar[str] = "step-limit"
    lets_holds_pass: ClassVar[bool] = True
    max_out: int | None
    max_in: int | None

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if self.max_out is not None and verdict.change > self.max_out:
            return verdict.current + self.max_out, f"at most {self.max_out} more at a time"
        if self.max_in is not None and -verdict.change > self.max_in:
            return verdict.current - self.max_in, f"at most {self.max_in} fewer at a time"
        return verdict.target, ""


@dataclass(frozen=True, slots=True)
class Hysteresis(EachOperator):
    """Goes only part of the way: a gain for growing, a gain for shrinking (giannakopoulos α and β).

    Growing is rounded up, shrinking is rounded down: either way a change of one is still made.
    """

    name: ClassVar[str] = "hysteresis"
    lets_holds_pass: ClassVar[bool] = True
    gain_out: float = 1.0
    gain_in: float = 1.0

    def __post_init__(self) -> None:
        for gain in (self.gain_out, self.gain_in):
            if not 0 < gain <= 1:
                raise InputError(f"hysteresis gain {gain} is not allowed; it must be above 0 and at most 1.")

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        gain = self.gain_out if verdict.change > 0 else self.gain_in
        wanted = verdict.current + gain * verdict.change
        # Gains such as 0.9 are not exact in binary: without the rounding 1 + 0.9 · 10 would come out above 10.
        steady = round(wanted, 9)
        target = math.ceil(steady) if verdict.change > 0 else math.floor(steady)
        if target == verdict.target:
            return target, ""
        return target, f"gain {gain:g} towards {verdict.target}"


@dataclass(frozen=True, slots=True)
class AllowedSizes(EachOperator):
    """Goes to a size that is possible: the next larger one, unless there is none."""

    name: ClassVar[str] = "sizes"
    lets_holds_pass: ClassVar[bool] = True
    allowed: Mapping[str, tuple[int, ...]]
    """By operator, rising."""

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        allowed = self.allowed.get(verdict.operator)
        if allowed is None or verdict.change == 0 or verdict.target in allowed:
            return verdict.target, ""
        target = next((size for size in allowed if size >= verdict.target), allowed[-1])
        if (target - verdict.current) * verdict.change < 0:
            target = verdict.current
        return target, f"only {', '.join(map(str, allowed))} instances are possible"


@dataclass(frozen=True, slots=True)
class GuardTimes(EachOperator):
    """Waits after a change before the next one, per direction of both (rouaux §4.2)."""

    name: ClassVar[str] = "guard-times"
    lets_holds_pass: ClassVar[bool] = True
    out_after_out_s: float = 0.0
    out_after_in_s: float = 0.0
    in_after_out_s: float = 0.0
    in_after_in_s: float = 0.0

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change == 0:
            return verdict.target, ""
        after_out_s, after_in_s = (
            (self.out_after_out_s, self.out_after_in_s)
            if verdict.change > 0
            else (self.in_after_out_s, self.in_after_in_s)
        )
        why = _too_soon(now, window.last_scale_out(verdict.operator), after_out_s, "out") or _too_soon(
            now, window.last_scale_in(verdict.operator), after_in_s, "in"
        )
        return (verdict.current, why) if why else (verdict.target, "")


def _too_soon(now: Instant, last: SizeChange | None, wait_s: float, direction: str) -> str:
    if last is None or now - last.at_s >= wait_s:
        return ""
    return f"scaled {direction} {format_duration(now - last.at_s)} ago, guard time {format_duration(wait_s)}"


@dataclass(frozen=True, slots=True)
class Monotonicity(EachOperator):
    """No scale-in when latency rose after a scale-out; no scale-out when it fell after a scale-in (azimi Alg. 5)."""

    name: ClassVar[str] = "monotonicity"
    lets_holds_pass: ClassVar[bool] = True

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        last = window.last_change(verdict.operator)
        if verdict.change == 0 or last is None:
            return verdict.target, ""
        before = window.sample_at(verdict.operator, last.at_s)
        newest = window.sample(verdict.operator)
        if before is None or newest is None:
            return verdict.target, ""
        before_s, newest_s = before.total_latency_s, newest.total_latency_s
        if before_s is None or newest_s is None:
            return verdict.target, ""
        text = f"latency went from {before_s:.3g} s to {newest_s:.3g} s after the last scale-"
        if last.is_scale_out and verdict.change < 0 and newest_s > before_s:
            return verdict.current, f"{text}out"
        if not last.is_scale_out and verdict.change > 0 and newest_s < before_s:
            return verdict.current, f"{text}in"
        return verdict.target, ""


@dataclass(frozen=True, slots=True)
class HoldWhilePending(EachOperator):
    """Waits, up to a limit, for the last change to take effect before instances are removed.

    Growth does not wait: the newest reading determines the request, and instances on their way are not requested
    twice, because targets are sizes and not steps.
    """

    name: ClassVar[str] = "pending"
    lets_holds_pass: ClassVar[bool] = True
    timeout_s: float
    growth_waits: bool = False
    """Whether growing waits, too."""

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        instances = window.instances(verdict.operator)
        if not _may_have_to_wait(verdict, self.growth_waits) or instances is None or instances.pending == 0:
            return verdict.target, ""
        last = window.last_change(verdict.operator)
        text = f"{instances.ready} of {instances.planned} planned instances are ready"
        if last is None or now - last.at_s >= self.timeout_s:
            # With a limit: a cluster that cannot provide the request must not freeze the job at that size.
            return verdict.target, f"{text}, not waiting longer than {format_duration(self.timeout_s)}"
        return verdict.current, text


def _may_have_to_wait(verdict: Verdict, growth_waits: bool) -> bool:
    return verdict.change < 0 or (growth_waits and verdict.change > 0)


@dataclass(frozen=True, slots=True)
class HoldWhileRecovering(EachOperator):
    """Removes nothing by what is measured before the operator has settled after a change of size.

    A start counts as a change: the first batches of a job are slow whatever its size. With ``growth_waits`` nothing is
    added by it either, which is the document's way (giannakopoulos "discard").
    """

    name: ClassVar[str] = "recovering"
    lets_holds_pass: ClassVar[bool] = True
    timeout_s: float
    growth_waits: bool = False

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if not _may_have_to_wait(verdict, self.growth_waits):
            return verdict.target, ""
        settled_s = window.settled_since_s(verdict.operator)
        if now - self._since_s(window, verdict.operator, settled_s) >= self.timeout_s:
            return verdict.target, ""
        sample = window.sample(verdict.operator)
        # A reading taken at the very instant of the change is one that led to it.
        if settled_s is not None and (sample is None or sample.measured_s <= settled_s):
            return verdict.current, "no reading yet of the size that the job has now"
        if sample is not None and sample.warming:
            return verdict.current, "the newest reading was made while instances were starting, joining or leaving"
        return verdict.target, ""

    def _since_s(self, window: Window, operator: str, settled_s: Instant | None) -> Instant:
        """When the unrest began: executors that keep coming and going must not put the end off for ever."""
        change, unsettled_s = window.last_change(operator), window.unsettled_since_s(operator)
        if settled_s is None or unsettled_s is None:
            return window.observations[0].at_s if settled_s is None else settled_s
        return unsettled_s if change is None else max(change.at_s, unsettled_s)


@dataclass(frozen=True, slots=True)
class NeverInBlind(EachOperator):
    """Never scales in without a fresh reading; scaling out stays possible."""

    name: ClassVar[str] = "blind"
    lets_holds_pass: ClassVar[bool] = True
    stale_after_s: float

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change >= 0:
            return verdict.target, ""
        instances, sample = window.instances(verdict.operator), window.sample(verdict.operator)
        if instances is not None and instances.stale:
            return verdict.current, "the size that the job has now is not known, so no scale-in"
        if sample is None:
            return verdict.current, "no reading yet, so no scale-in"
        # A job with a long trigger interval has rare readings; two of them missing is what counts as stale there.
        stale_after_s = max(self.stale_after_s, 2 * (sample.trigger_interval_s or 0.0))
        age_s = now - sample.at_s + sample.age_s
        if age_s > stale_after_s:
            return verdict.current, f"the newest reading is {format_duration(age_s)} old, so no scale-in"
        return verdict.target, ""


OVERLOADED_S = 60.0
"""Records that are late, and a backlog that has grown, for this long show that a size is too small."""
DOUBT_S = 30.0
"""After a reading that was refused in part, nothing is removed for this long."""
BUSY_SPAN_S = 30.0
"""The span over which the present load is measured."""
FAR_BELOW = 1 / 4
"""A size below this share of the instances that the load keeps busy is reached only in steps."""
STEP_S = 60.0
"""The time between two of these steps."""
STEP_SHARE = 0.25
"""The share of the instances that one step removes."""
_OBLIGATORY = frozenset({"bounds", "constraint-bounds", "affordable"})
"""Guards whose limits hold whatever the load: the user set them."""


@dataclass(frozen=True, slots=True)
class Trusted(EachOperator):
    """The last line of defence against wrong readings, and policies that learned from them; it cannot be disabled.

    Nothing shrinks while records are late and the backlog grows, or shortly after a reading that was refused in part
    (``reading_gate.py``). A size far below what the present load keeps busy is reached only in steps.
    """

    name: ClassVar[str] = "trusted"
    lets_holds_pass: ClassVar[bool] = True
    objective: Objective

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        operator, current = verdict.operator, verdict.current
        if verdict.change >= 0 or any(_is_obligatory(note, current) for note in verdict.notes):
            return verdict.target, ""
        doubted_s = window.doubted_s(operator)
        if doubted_s is not None and now - doubted_s < DOUBT_S:
            return current, f"a reading {format_duration(now - doubted_s)} ago was refused in part, so no scale-in"
        if why := self.overload(window, operator):
            return current, f"{why}, so no scale-in"
        busy = busy_instances(window, operator, BUSY_SPAN_S)
        if busy is None or verdict.target >= FAR_BELOW * busy:
            return verdict.target, ""
        last = window.last_scale_in(operator)
        text = f"the load keeps {busy:.2g} instances busy"
        if last is not None and now - last.at_s < STEP_S:
            return current, f"{text}, and a step was made {format_duration(now - last.at_s)} ago"
        step = current - max(1, math.floor(STEP_SHARE * current))
        return max(verdict.target, step), f"{text}: towards {verdict.target} in steps"

    def overload(self, window: Window, operator: str) -> str:
        """Return in words that the size is too small, if records are late and the backlog has grown for a while."""
        newest, slo = window.sample(operator), self.objective.slo_of(operator)
        if newest is None or newest.backlog is None or slo.violated_by(newest) is not True:
            return ""
        span_s = max(OVERLOADED_S, 2 * (newest.trigger_interval_s or 0.0))
        before = window.sample_at(operator, newest.at_s - span_s)
        if before is None or before.backlog is None or slo.violated_by(before) is not True:
            return ""
        if newest.backlog <= before.backlog:
            return ""
        return f"the objective is missed, and the backlog has grown for {format_duration(span_s)}"

    def without_steady(self, window: Window, decision: Decision) -> Decision:
        """Return the decision in which no hold of an overloaded operator is called steady."""
        changed = {
            name: replace(verdict, code="overloaded", reason=f"{verdict.reason}; but {why}")
            for name, verdict in decision.verdicts.items()
            if verdict.code == "steady" and verdict.change == 0 and (why := self.overload(window, name))
        }
        return replace(decision, verdicts={**decision.verdicts, **changed}) if changed else decision


def _is_obligatory(note: GuardNote, current: int) -> bool:
    return note.guard in _OBLIGATORY and note.after < min(note.before, current)


@dataclass(frozen=True, slots=True)
class Together:
    """Operators that can only be rescaled together shrink together: while one of them has to wait, none does.

    A rescale is a restart for all of them, and one for a part of what is due would soon be followed by another.
    """

    name: ClassVar[str] = "together"

    def __call__(self, window: Window, decision: Decision) -> Decision:
        verdicts = dict(decision.verdicts)
        for name, verdict in decision.verdicts.items():
            group = [decision.verdicts[key] for key in window.topology.rescaled_with(name) if key in decision.verdicts]
            waiting = next((other for other in group if other.change == 0 and other.proposed != other.current), None)
            growing = any(member.change > 0 for member in group)
            target, why = verdict.target, ""
            if verdict.change < 0 and waiting is not None and not growing:
                target, why = verdict.current, f"it is rescaled together with {waiting.operator}, which has to wait"
            if len(group) > 1:
                note = GuardNote(self.name, verdict.target, target, why)
                verdicts[name] = replace(verdict, target=target, notes=(*verdict.notes, note))
        return replace(decision, verdicts=verdicts)


@dataclass(frozen=True, slots=True)
class Resumed(EachOperator):
    """A job that starts again gets back the size it had; a smaller one is left to the policy, which has seen nothing.

    It comes after all others, for the first decision only.
    """

    name: ClassVar[str] = "resumed"
    sizes: Mapping[str, int]

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        had = self.sizes.get(verdict.operator, 0)
        if had <= max(verdict.current, verdict.target):
            return verdict.target, ""
        return had, f"the job had {had} instances when it was last seen"


STARTS_WITHIN = 2.0
"""An instance that takes longer than this multiple of nearly all start-ups before is not coming."""
LEAST_TRY_S = 15.0
"""How long, at least, to wait for an instance when asking again a cluster that gave none."""
REMEMBERED_S = 600.0
"""How long it counts that the cluster did not give what was requested."""


@dataclass(frozen=True, slots=True)
class Attainable(EachOperator):
    """Brings a plan that the cluster does not fulfil back to what it gives, and asks again after a while.

    Otherwise a plan would run away from a full cluster, and take as long to come back as it took to grow. Asking again
    is short where start-ups are known to be: the plan is what there is for most of the time.
    """

    name: ClassVar[str] = "attainable"
    timeout_s: float
    """How long to wait for another instance to come; longer where start-ups were found to take longer."""
    retry_after_s: float
    """How long not to ask for more than the cluster was found to give."""
    min_instances: int = 1
    own: OwnBounds = field(default_factory=lambda: _NONE_OWN)

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        short_s = window.short_since_s(verdict.operator)
        if short_s is None and verdict.target <= verdict.current:
            return verdict.target, ""  # Nothing is missing and nothing more is requested, as in most decisions.
        instances = window.instances(verdict.operator)
        if instances is None or instances.stale:
            return verdict.target, ""
        last = self._last_return(window, verdict.operator)
        if (
            short_s is not None
            and verdict.target > instances.ready
            and now - short_s >= self._patience_s(window, verdict.operator, now, instances.ready, last)
        ):
            lowest, _ = self.own.get(verdict.operator, (self.min_instances, 0))
            because = f" ({instances.missing_why})" if instances.missing_why else ""
            why = (
                f"the cluster gave {instances.ready} of {instances.planned} planned instances and no more for "
                f"{format_duration(now - short_s)}{because}: back to what it gives"
            )
            target = min(verdict.target, max(lowest, instances.ready))
            return (target, why) if target != verdict.target else (target, "")
        if last is None or verdict.change <= 0 or now - last.at_s >= self.retry_after_s:
            return verdict.target, ""
        given, ago_s = last.verdict.target, now - last.at_s
        if verdict.target <= given:
            return verdict.target, ""
        why = (
            f"the cluster gave no more than {given} {format_duration(ago_s)} ago; asking again in "
            f"{format_duration(self.retry_after_s - ago_s)}"
        )
        return max(verdict.current, given), why

    def _last_return(self, window: Window, operator: str) -> SizeChange | None:
        """The newest scale-in, if the plan came back to what the cluster gives by it."""
        last = window.last_scale_in(operator)
        if last is None or not any(
            note.guard == self.name and note.before != note.after for note in last.verdict.notes
        ):
            return None
        return last

    def _patience_s(self, window: Window, operator: str, now: Instant, ready: int, last: SizeChange | None) -> float:
        """How long to wait for another instance now."""
        usual_s = window.startup_times(operator).registered_s.quantile(0.9)
        patience_s = max(self.timeout_s, STARTS_WITHIN * (usual_s or 0.0))
        if usual_s is None or last is None or now - last.at_s >= REMEMBERED_S or ready > last.verdict.target:
            return patience_s
        return min(patience_s, max(LEAST_TRY_S, STARTS_WITHIN * usual_s))
