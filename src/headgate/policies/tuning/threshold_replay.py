"""What a recent load would have cost with other thresholds: a small model of a job, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.window import Window

MOST_LATE = 10.0
"""A second so many times over the bound costs as much as any later one."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scale out when the busy share stays above ``upper`` for a time, in when it stays below ``lower`` for another."""

    upper: float
    lower: float
    upper_for_s: float
    lower_for_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """A stretch of time in which the job was given enough work for ``demand`` instances."""

    seconds: float
    demand: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stretch of the past to be lived through again."""

    loads: Sequence[Load]
    instances: int
    """What the job had when it began."""
    waiting_s: float = 0.0
    """The work that waited then, in seconds of one instance."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a replay is judged by, and what it has to reckon with."""

    min_instances: int
    max_instances: int
    trigger_interval_s: float
    """What a batch waits for; 0 where there are no batches."""
    latency_bound_s: float
    violation_price: float
    """What a second at the bound costs, in seconds of an instance."""
    startup_s: float = 0.0
    """How long an instance that is asked for is paid for before it helps."""
    grace_period_s: float = 0.0
    """How long nothing is done after a change of size."""


def recorded(window: Window, operator: str, since_s: float) -> Recorded | None:
    """The load of an operator as its readings tell it: arrivals over what one instance got through when busy.

    ``None`` as long as they do not tell what that is.
    """
    loads: list[Load] = []
    began: tuple[int, float] | None = None
    before_s: float | None = None
    capacity_per_s: float | None = None
    for observation in window.observations:
        sample, instances = observation.samples.get(operator), observation.instances.get(operator)
        if sample is None or instances is None or sample.at_s < since_s or sample.at_s == before_s:
            continue
        if sample.processed_rate_per_s and instances.ready:
            capacity_per_s = float(sample.processed_rate_per_s) / instances.ready
        if before_s is not None and capacity_per_s and sample.input_rate_per_s is not None:
            loads.append(Load(float(sample.at_s - before_s), float(sample.input_rate_per_s) / capacity_per_s))
        if began is None and capacity_per_s:
            began = instances.planned, float(sample.backlog or 0.0) / capacity_per_s
        before_s = sample.at_s
    return None if began is None or not loads else Recorded(loads, *began)


def replay_cost(past: Recorded, thresholds: Thresholds, terms: Terms) -> float:
    """Seconds of instances that were paid for, plus the price of the time over the latency bound.

    A second costs the more the further it is over the bound: else, where all is late anyway, the fewest instances would
    be best. Work that still waits in the end is late for as long as it would take to get through it.

    >>> terms = Terms(1, 4, trigger_interval_s=10, latency_bound_s=30, violation_price=10)
    >>> replay_cost(Recorded([Load(10, 1.0)] * 6, instances=2), Thresholds(0.9, 0.1, 20, 60), terms)
    120.0
    """
    planned = ready = max(terms.min_instances, min(terms.max_instances, past.instances))
    cost = above_s = below_s = now_s = 0.0
    arrives_s = blind_until_s = 0.0
    waiting_s = past.waiting_s
    latency_s = 0.0
    for load in past.loads:
        if now_s >= arrives_s:
            ready = planned
        # Instances that have a queue are busy all the time, however little arrives.
        busy_share = max(load.demand / ready, 1.0) if waiting_s > 0 else load.demand / ready
        latency_s = waiting_s / ready + load.demand / ready * terms.trigger_interval_s
        late = min(MOST_LATE, latency_s / terms.latency_bound_s) if latency_s > terms.latency_bound_s > 0 else 0.0
        cost += load.seconds * (max(planned, ready) + terms.violation_price * late)
        waiting_s = max(0.0, waiting_s + (load.demand - ready) * load.seconds)
        now_s += load.seconds
        if now_s <= blind_until_s:
            continue
        above_s = above_s + load.seconds if busy_share > thresholds.upper else 0.0
        below_s = below_s + load.seconds if busy_share < thresholds.lower else 0.0
        change = 0
        if above_s >= thresholds.upper_for_s and above_s > 0 and planned < terms.max_instances:
            change = 1
        elif below_s >= thresholds.lower_for_s and below_s > 0 and planned > terms.min_instances:
            change = -1
        if change:
            planned += change
            above_s = below_s = 0.0
            arrives_s = now_s + (terms.startup_s if change > 0 else 0.0)
            blind_until_s = max(arrives_s, now_s + terms.grace_period_s)
    late_s = waiting_s / ready if latency_s > terms.latency_bound_s else 0.0
    return cost + terms.violation_price * late_s
