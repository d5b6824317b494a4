"""Stabilisers that wrap any policy, always in this order:

bounds → strategy → step limit → hysteresis → guard times → monotonicity → pending → recovering → blind

Each is a small frozen value that is called with the window and a decision. A guard either lets an operator's target
pass or replaces it, and says why in a note. Bounds come first, so that the others see a size that is possible; those
that can only hold come last, so that nothing after them can undo a hold. No guard moves a target across the current
size: it may soften a change or stop it, never turn it around (bounds excepted: a size outside them must come back).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headgate.core.errors import InputError
from headgate.core.types import Decision, GuardNote, Instant, Verdict
from headgate.core.units import format_duration
from headgate.core.window import Change, Window


class EachOperator:
    """A guard that looks at one operator at a time."""

    __slots__ = ()
    name: ClassVar[str]

    def __call__(self, window: Window, decision: Decision) -> Decision:
        verdicts = {name: self._noted(window, decision.at_s, verdict) for name, verdict in decision.verdicts.items()}
        return Decision(decision.at_s, decision.policy, verdicts)

    def _noted(self, window: Window, now: Instant, verdict: Verdict) -> Verdict:
        target, why = self.limit(window, now, verdict)
        return Verdict(
            verdict.operator,
            verdict.current,
            verdict.proposed,
            target,
            verdict.code,
            verdict.reason,
            verdict.numbers,
            (*verdict.notes, GuardNote(self.name, verdict.target, target, why)),
        )

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        """The target that is left, and why it differs (empty when it does not)."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Bounds(EachOperator):
    """Never fewer than the minimum, never more than the maximum."""

    name: ClassVar[str] = "bounds"
    min_instances: int
    max_instances: int

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.target < self.min_instances:
            return self.min_instances, f"at least {self.min_instances} instances"
        if verdict.target > self.max_instances:
            return self.max_instances, f"at most {self.max_instances} instances"
        return verdict.target, ""


class StrategyKind(StrEnum):
    """How many instances a change of size is made of (azimi §4.2.5)."""

    AS_PROPOSED = "as-proposed"
    STATIC = "static"
    LINEAR = "linear"
    QUEUE_AWARE = "queue-aware"


@dataclass(frozen=True, slots=True)
class Strategy(EachOperator):
    """Takes only the direction from the policy and sets how many instances to add or to remove.

    - static: always ``granularity``
    - linear: 1, 2, 4, 6, 8 … times ``granularity`` for changes in a row that go the same way
    - queue-aware: adds one per waiting batch, at least ``granularity``; removes ``granularity``
    """

    name: ClassVar[str] = "strategy"
    kind: StrategyKind
    granularity: int
    min_instances: int
    max_instances: int

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.target == verdict.current or self.kind is StrategyKind.AS_PROPOSED:
            return verdict.target, ""
        direction = 1 if verdict.target > verdict.current else -1
        count, why = self._count(window, verdict.operator, direction)
        target = max(self.min_instances, min(self.max_instances, verdict.current + direction * count))
        return target, why

    def _count(self, window: Window, operator: str, direction: int) -> tuple[int, str]:
        if self.kind is StrategyKind.LINEAR:
            streak = max(0, window.streak(operator) * direction)
            return self.granularity * max(1, 2 * streak), f"linear strategy, change {streak + 1} in a row this way"
        if self.kind is StrategyKind.QUEUE_AWARE and direction > 0:
            waiting = _waiting_batches(window, operator)
            if waiting is None:
                return self.granularity, "queue-aware strategy without a reading of the queue: as static"
            return max(self.granularity, waiting), f"queue-aware strategy, {waiting} batches waiting"
        return self.granularity, f"{self.kind} strategy, {self.granularity} at a time"


def _waiting_batches(window: Window, operator: str) -> int | None:
    sample = window.sample(operator)
    if sample is None or not sample.trigger_interval_s or sample.scheduling_delay_s is None:
        return None
    return math.ceil(sample.scheduling_delay_s / sample.trigger_interval_s)


@dataclass(frozen=True, slots=True)
class StepLimit(EachOperator):
    """No single change is larger than this."""

    name: ClassVar[str] = "step-limit"
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
class GuardTimes(EachOperator):
    """Waits after a change before the next one, per direction of both (rouaux §4.2)."""

    name: ClassVar[str] = "guard-times"
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


def _too_soon(now: Instant, last: Change | None, wait_s: float, direction: str) -> str:
    if last is None or now - last.at_s >= wait_s:
        return ""
    return f"scaled {direction} {format_duration(now - last.at_s)} ago, guard time {format_duration(wait_s)}"


@dataclass(frozen=True, slots=True)
class Monotonicity(EachOperator):
    """No scale-in when latency rose after a scale-out; no scale-out when it fell after a scale-in (azimi Alg. 5)."""

    name: ClassVar[str] = "monotonicity"

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change == 0 or not window.decisions:
            return verdict.target, ""
        last = window.decisions[-1]
        last_verdict = last.verdicts.get(verdict.operator)
        before = window.sample_at(verdict.operator, last.at_s)
        newest = window.sample(verdict.operator)
        if last_verdict is None or before is None or newest is None:
            return verdict.target, ""
        if before.latency_s is None or newest.latency_s is None:
            return verdict.target, ""
        told = f"latency went from {before.latency_s:.3g} s to {newest.latency_s:.3g} s after the last scale-"
        if last_verdict.change > 0 and verdict.change < 0 and newest.latency_s > before.latency_s:
            return verdict.current, f"{told}out"
        if last_verdict.change < 0 and verdict.change > 0 and newest.latency_s < before.latency_s:
            return verdict.current, f"{told}in"
        return verdict.target, ""


@dataclass(frozen=True, slots=True)
class HoldWhilePending(EachOperator):
    """Waits for the last change to arrive before making the next, but not for ever."""

    name: ClassVar[str] = "pending"
    timeout_s: float

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        instances = window.instances(verdict.operator)
        if verdict.change == 0 or instances is None or instances.pending == 0:
            return verdict.target, ""
        last = window.last_change(verdict.operator)
        told = f"{instances.ready} of {instances.planned} planned instances are ready"
        if last is None or now - last.at_s >= self.timeout_s:
            # Not for ever: a cluster that cannot give what was asked must not freeze the job at that size.
            return verdict.target, f"{told}, not waiting longer than {format_duration(self.timeout_s)}"
        return verdict.current, told


@dataclass(frozen=True, slots=True)
class HoldWhileRecovering(EachOperator):
    """Discards what is measured until the operator has settled after a change of size (giannakopoulos "discard").

    A start counts as a change: the first batches of a job are slow whatever its size.
    """

    name: ClassVar[str] = "recovering"
    timeout_s: float

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change == 0:
            return verdict.target, ""
        settled_s = window.settled_since_s(verdict.operator)
        since_s = window.observations[0].at_s if settled_s is None else settled_s
        if now - since_s >= self.timeout_s:
            return verdict.target, ""
        sample = window.sample(verdict.operator)
        # A reading taken at the very instant of the change is one that led to it.
        if settled_s is not None and (sample is None or sample.at_s <= settled_s):
            return verdict.current, "no reading yet of the size that the job has now"
        if sample is not None and sample.warming:
            return verdict.current, "the newest reading was made while instances were starting, joining or leaving"
        return verdict.target, ""


@dataclass(frozen=True, slots=True)
class NeverInBlind(EachOperator):
    """Never scales in without a fresh reading; scaling out stays possible."""

    name: ClassVar[str] = "blind"
    stale_after_s: float

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change >= 0:
            return verdict.target, ""
        sample = window.sample(verdict.operator)
        if sample is None:
            return verdict.current, "no reading yet, so no scale-in"
        # A job with a long trigger interval has rare readings; two of them missing is what counts as stale there.
        stale_after_s = max(self.stale_after_s, 2 * (sample.trigger_interval_s or 0.0))
        if now - sample.at_s > stale_after_s:
            return verdict.current, f"the newest reading is {format_duration(now - sample.at_s)} old, so no scale-in"
        return verdict.target, ""
