"""What a recent load would have cost with other thresholds: a small model of a job, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.window import Window


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scale out when the busy share stays above ``upper`` for a time, in when it stays below ``lower`` for another."""

    upper: float
    lower: float
    upper_for_s: float
    lower_for_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """A stretch of time in which the job had enough work for ``demand`` instances."""

    seconds: float
    demand: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What a replay is judged by."""

    min_instances: int
    max_instances: int
    trigger_interval_s: float
    """What a batch waits for; 0 where there are no batches."""
    latency_bound_s: float
    violation_price: float
    """What a second over the bound costs, in seconds of an instance."""


def recorded_load(window: Window, operator: str, since_s: float) -> list[Load]:
    """The load of an operator as its readings tell it: arrivals over what one instance got through when busy."""
    loads: list[Load] = []
    before_s: float | None = None
    capacity_per_s: float | None = None
    for observation in window.observations:
        sample, instances = observation.samples.get(operator), observation.instances.get(operator)
        if sample is None or instances is None or sample.at_s < since_s or sample.at_s == before_s:
            continue
        if sample.processed_rate_per_s and instances.ready:
            capacity_per_s = sample.processed_rate_per_s / instances.ready
        if before_s is not None and capacity_per_s and sample.input_rate_per_s is not None:
            loads.append(Load(sample.at_s - before_s, sample.input_rate_per_s / capacity_per_s))
        before_s = sample.at_s
    return loads


def replay_cost(loads: Sequence[Load], thresholds: Thresholds, terms: Terms, instances: int) -> float:
    """Seconds of instances that were paid for, plus the price of the time over the latency bound.

    >>> terms = Terms(1, 4, trigger_interval_s=10, latency_bound_s=30, violation_price=10)
    >>> replay_cost([Load(10, 1.0)] * 6, Thresholds(0.9, 0.1, 20, 60), terms, instances=2)
    120.0
    """
    cost = waiting = above_s = below_s = 0.0
    for load in loads:
        busy_share = load.demand / instances
        latency_s = waiting / instances + busy_share * terms.trigger_interval_s
        cost += load.seconds * (instances + (terms.violation_price if latency_s > terms.latency_bound_s else 0.0))
        waiting = max(0.0, waiting + (load.demand - instances) * load.seconds)
        above_s = above_s + load.seconds if busy_share > thresholds.upper else 0.0
        below_s = below_s + load.seconds if busy_share < thresholds.lower else 0.0
        if above_s >= thresholds.upper_for_s and above_s > 0 and instances < terms.max_instances:
            instances, above_s = instances + 1, 0.0
        elif below_s >= thresholds.lower_for_s and below_s > 0 and instances > terms.min_instances:
            instances, below_s = instances - 1, 0.0
    return cost
