"""reactive: learn what one instance can carry, and size the job by it (giannakopoulos §3.2, Alg. 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, instances_in_words, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.capacity.mst import estimated_throughput
from headgate.policies.frame.base import Context, OperatorPolicy, hold, register
from headgate.policies.frame.readings import is_queueing, objective_status, readings_over, work_pressure
from headgate.policies.frame.settings import Seconds, Settings


class CapacitySource(IntEnum):
    """What a capacity was learned from; the better source has the higher number."""

    OFFERED = 0
    """The offered rate at a violation: far too much when the load has jumped."""
    BUSYNESS = 1
    """How busy the instances were while the objective was met."""
    PROCESSED = 2
    """What the instances got through at a violation."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one instance carries: a running mean over readings of one source.

    >>> Capacity(80.0, 1, CapacitySource.PROCESSED).joined(100.0, CapacitySource.PROCESSED, memory=10).rate_per_s
    90.0
    """

    rate_per_s: float
    count: int
    source: CapacitySource

    def joined(self, rate_per_s: float, source: CapacitySource, memory: int) -> Capacity:
        """This mean with one more reading; a better source replaces it, a worse one is ignored."""
        if source != self.source:
            return Capacity(rate_per_s, 1, source) if source > self.source else self
        weight = min(self.count, memory - 1)
        return Capacity((weight * self.rate_per_s + rate_per_s) / (weight + 1), self.count + 1, source)


class ReactiveSettings(Settings):
    idle_for_s: Seconds = 150.0
    """How long one instance fewer must have been enough before it is removed."""
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of what instances can carry that may be used up after one is removed."""
    drain_within_s: Seconds = 60.0
    """When scaling out, add what it takes to work off the backlog within this time; 0 leaves the backlog out, as the
    document does."""
    memory: Annotated[int, Field(ge=1)] = 10
    """Readings that the learned capacity is the mean of; older ones fade, so that records which became heavier
    are noticed."""


@register
class Reactive(OperatorPolicy[ReactiveSettings]):
    """Learns at every violation what one instance carries, and goes to the size that the load needs.

    - Violated: go to ``ceil(rate / capacity)``, at least one more than planned; while instances are still to come or
      warming up, only to what the load needs.
    - One instance is removed when ``ceil(rate / (headroom · capacity))`` would have been enough, and the objective
      would have been met with the same headroom, throughout ``idle_for_s``.

    The document takes the offered rate per instance for the capacity, which after a jump of the load is far too much;
    what is meant is what an instance gets through, so the processed rate is taken where it is known. Its counter of
    idle samples is re-set inside the loop as printed; here it is the time since the condition last broke. As long as
    nothing was violated, where the document never scales in, capacity is estimated from how busy the instances are; the
    same estimate takes over again when it has plainly refuted what a violation taught.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> reading = Sample("job", 0, input_rate_per_s=410, processed_rate_per_s=176, latency_s=12.3)
    >>> target = last_target("reactive", "latency < 10s", 2, reading)
    >>> target.instances, target.reason
    (5, 'latency 12.3 s is over the 10s bound; 410 records/s need 5 instances of 88/s')
    """

    name = "reactive"
    summary = "Learns what one instance carries and follows the load with it."
    Settings = ReactiveSettings

    def __init__(self, settings: ReactiveSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.idle_for_s)
        self._learned: dict[str, Capacity] = {}
        self._learned_s: dict[str, Instant] = {}

    def capacity(self, operator: str) -> Capacity | None:
        """Return the learned capacity of one instance."""
        return self._learned.get(operator)

    def forget(self, operator: str) -> None:
        """Forget the learned capacity: the operator has changed."""
        self._learned.pop(operator, None)

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        violated = self.objective.slo.violated_by(sample)
        text, numbers = objective_status(self.objective.slo, sample)
        numbers["rate_per_s"] = sample.input_rate_per_s
        if violated is None:
            return hold(instances, "no-data", f"{text}: holding", numbers)
        settled_s = window.settled_since_s(operator)
        is_of_this_size = settled_s is None or sample.measured_s > settled_s
        if is_of_this_size:
            self._learn(operator, instances, sample, violated=violated)
        if violated:
            # Otherwise each reading would request one more instance while requested ones are still starting.
            is_conclusive = is_of_this_size and not sample.warming and instances.pending <= 0
            return self._grow(operator, instances, sample, text, numbers, is_conclusive=is_conclusive)
        if not is_of_this_size:
            reason = "no reading yet of the size that the job has now"
            return hold(instances, "no-reading-since-change", reason, numbers)
        self._doubt(window, operator, instances)
        return self._keep_or_shrink(window, operator, instances, sample, text, numbers)

    def _learn(self, operator: str, instances: Instances, sample: Sample, *, violated: bool) -> None:
        """Learn the capacity from one reading (Alg. 1, which does so at violations only)."""
        # The loop may decide more often than there are readings; none may count twice.
        if sample.warming or instances.ready < 1 or self._learned_s.get(operator) == sample.measured_s:
            return
        carried, source = (
            _carried_at_violation(sample) if violated else (estimated_throughput(sample), CapacitySource.BUSYNESS)
        )
        if not carried:
            return
        self._learned_s[operator] = sample.measured_s
        rate_per_s, known = carried / instances.ready, self._learned.get(operator)
        self._learned[operator] = (
            known.joined(rate_per_s, source, self.settings.memory) if known else Capacity(rate_per_s, 1, source)
        )

    def _doubt(self, window: Window, operator: str, instances: Instances) -> None:
        """Replace a capacity learned at a violation if instances carried clearly more throughout ``idle_for_s``.

        Otherwise a single stall under little load would teach a tiny capacity and keep the job large indefinitely.
        """
        learned = self._learned.get(operator)
        if learned is None or learned.source is not CapacitySource.PROCESSED or instances.ready < 1:
            return
        readings = readings_over(window, operator, self.settings.idle_for_s)
        shown = [estimated_throughput(reading) for reading in readings if not self._violates(reading)]
        known = [carried for carried in shown if carried is not None]
        if not readings or len(known) < len(readings):
            return
        least_per_s = min(known) / instances.ready
        if self.settings.headroom * least_per_s > learned.rate_per_s:
            self._learned[operator] = Capacity(least_per_s, 1, CapacitySource.BUSYNESS)

    def _violates(self, reading: Sample) -> bool:
        return self.objective.slo.violated_by(reading) is not False

    def _grow(
        self,
        operator: str,
        instances: Instances,
        sample: Sample,
        text: str,
        numbers: dict[str, Number],
        *,
        is_conclusive: bool,
    ) -> Target:
        """Return the size that the load needs; at least one more if the reading is of the planned size."""
        one_more = instances.planned + 1
        learned, rate = self._learned.get(operator), sample.input_rate_per_s
        if learned is None or rate is None:
            if not is_conclusive:
                return hold(instances, "arriving", f"{text}; what the planned size makes of it is to be seen", numbers)
            text = f"{text}; what the load needs is not known, so one more"
            return Target(one_more, "slo-violated", text, numbers)
        load = f"{plain(rate)} records/s"
        drain_within_s = self.settings.drain_within_s
        if drain_within_s and sample.backlog:
            rate += sample.backlog / drain_within_s
            load = f"{load} and {plain(sample.backlog)} waiting, to be done in {format_duration(drain_within_s)},"
            numbers["backlog"] = sample.backlog
        needed = _needed(rate, learned.rate_per_s)
        numbers |= {"capacity_per_s": learned.rate_per_s, "needed": needed}
        text = f"{text}; {load} need {instances_in_words(needed)} of {plain(learned.rate_per_s)}/s"
        if needed < one_more:
            if not is_conclusive:
                text = f"{text}, and {instances.planned} are planned: what they make of it is to be seen"
                return hold(instances, "arriving", text, numbers)
            text = f"{text}, but {instances.planned} are planned already: one more"
        return Target(max(needed, one_more), "slo-violated", text, numbers)

    def _keep_or_shrink(
        self, window: Window, operator: str, instances: Instances, sample: Sample, text: str, numbers: dict[str, Number]
    ) -> Target:
        idle_for = format_duration(self.settings.idle_for_s)
        learned, rate = self._learned.get(operator), sample.input_rate_per_s
        if rate is None or (learned is None and rate > 0):
            what = "the rate of arrivals" if rate is None else "what an instance can carry"
            return hold(instances, "steady", f"{text}; {what} is not known", numbers)
        capacity = learned.rate_per_s if learned else None
        needed = _needed(rate, self.settings.headroom * capacity) if capacity else 1
        numbers |= {"capacity_per_s": capacity, "needed": needed}
        each = f" of {plain(capacity)}/s" if capacity else ""
        text = f"{text}; {plain(rate)} records/s need {instances_in_words(needed)}{each} with headroom"
        if not self._is_idle(operator, instances, sample):
            return hold(instances, "steady", text, numbers)
        readings = readings_over(window, operator, self.settings.idle_for_s)
        if readings and all(self._is_idle(operator, instances, reading) for reading in readings):
            text = f"{text}, and fewer than {instances.planned} were enough for {idle_for}"
            return Target(instances.planned - 1, "idle", text, numbers)
        return hold(instances, "waiting", f"{text}; removing one once that held for {idle_for}", numbers)

    def _is_idle(self, operator: str, instances: Instances, reading: Sample) -> bool:
        """Whether one instance fewer would have been enough when a reading was made."""
        planned, rate = instances.planned, reading.input_rate_per_s
        if planned <= 1 or rate is None or self._violates(reading):
            return False
        if rate == 0:
            return True
        pressure, learned = work_pressure(self.objective.slo, reading), self._learned.get(operator)
        if pressure is None or learned is None or pressure * planned / (planned - 1) >= self.settings.headroom:
            return False
        return planned > _needed(rate, self.settings.headroom * learned.rate_per_s)

    def _state(self) -> dict[str, JSON]:
        return {
            "learned": {
                name: [capacity.rate_per_s, capacity.count, int(capacity.source)]
                for name, capacity in self._learned.items()
            },
            "learned_s": dict(self._learned_s),
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        learned = {
            str(name): Capacity(float(rate_per_s), int(count), CapacitySource(source))
            for name, (rate_per_s, count, source) in state["learned"].items()
        }
        self._learned_s = {str(name): float(at_s) for name, at_s in state["learned_s"].items()}
        self._learned = learned


def _carried_at_violation(sample: Sample) -> tuple[float | None, CapacitySource]:
    """Records per second that all instances together carried, when that was too much for the objective."""
    offered, processed = sample.input_rate_per_s, sample.processed_rate_per_s
    if processed is None:
        return offered, CapacitySource.OFFERED
    # Without a queue the instances were fast enough: a lower rate than they processed was too much for the objective.
    carried = processed if offered is None or is_queueing(sample) else min(offered, processed)
    return carried, CapacitySource.PROCESSED


def _needed(rate_per_s: float, capacity_per_s: float) -> int:
    # Quotients are not exact in binary: without the rounding a load of exactly three instances might need four.
    return max(1, math.ceil(round(rate_per_s / capacity_per_s, 9)))
