"""The metrics that are available by name: what each is counted in, and how those of several instances become one.

Every engine gives the basic ones with each sample. Others are collected only while somebody subscribes to them, under
a key that says how the readings of the instances are put together:

>>> metric_key("memory_share", Aggregation.MAX), metric_key("memory_share")
('memory_share:max', 'memory_share')
>>> aggregate([0.2, 0.4, 0.9], Aggregation.MAX)
0.9
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Dimension(StrEnum):
    """What a metric is counted in."""

    RECORDS = "records"
    RATE = "records/s"
    TIME = "seconds"
    SHARE = "a share from 0 to 1"
    COUNT = "a plain number"
    ANY = "whatever its maker counts in"


class Aggregation(StrEnum):
    """How the readings of several instances become one."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    P95 = "p95"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that Headgate knows by name."""

    name: str
    dimension: Dimension
    help: str
    per_instance: bool = False
    """Every instance has its own reading of it; collected on subscription only."""


METRICS = {
    metric.name: metric
    for metric in (
        Metric("backlog", Dimension.RECORDS, "records that have arrived and are not processed yet"),
        Metric("input_rate_per_s", Dimension.RATE, "records offered per second"),
        Metric("processed_rate_per_s", Dimension.RATE, "records per second got through while busy"),
        Metric(
            "latency_s", Dimension.TIME, "the longest that any record waited for its result since the reading before"
        ),
        Metric("processing_time_s", Dimension.TIME, "how long the newest batch took"),
        Metric("scheduling_delay_s", Dimension.TIME, "how long the newest batch waited before it started"),
        Metric("trigger_interval_s", Dimension.TIME, "time between two batches as configured"),
        Metric("utilization", Dimension.SHARE, "busy share of the instances"),
        Metric("busy_share", Dimension.COUNT, "processing time over trigger interval; above 1 the job falls behind"),
        Metric("memory_share", Dimension.SHARE, "used share of an instance's storage memory", per_instance=True),
        Metric(
            "gc_share", Dimension.SHARE, "share of its task time that an instance collected garbage", per_instance=True
        ),
        Metric("active_tasks", Dimension.COUNT, "tasks that an instance is running", per_instance=True),
        Metric("failed_tasks", Dimension.COUNT, "tasks that have failed on an instance so far", per_instance=True),
    )
}
"""Every metric that is known by name, whatever the engine."""

BASIC_METRICS = frozenset(name for name, metric in METRICS.items() if not metric.per_instance)
"""What every sample has, or could have; nobody needs to subscribe to these."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A metric that the job itself computes: a column of ``df.observe(observation, …)`` on Spark."""

    observation: str
    column: str


MetricCallable: TypeAlias = Callable[[str], float | Sequence[float] | None]
"""Returns a metric of the given operator: one number, one per instance, or ``None`` when it is not known."""

MetricSource: TypeAlias = MetricCallable | Observed
"""Where a metric of the user's own comes from."""


def metric_key(name: str, aggregation: Aggregation = Aggregation.MEAN) -> str:
    """The name under which a sample carries a metric that is put together in this way."""
    return name if aggregation is Aggregation.MEAN else f"{name}:{aggregation}"


def split_key(key: str) -> tuple[str, Aggregation]:
    """The name and the aggregation of a key."""
    name, colon, aggregation = key.rpartition(":")
    return (name, Aggregation(aggregation)) if colon and aggregation in list(Aggregation) else (key, Aggregation.MEAN)


def aggregate(values: Sequence[float], aggregation: Aggregation) -> float | None:
    """One number for those of several instances; ``None`` when there are none."""
    if not values:
        return None
    match aggregation:
        case Aggregation.MEAN:
            return math.fsum(values) / len(values)
        case Aggregation.MAX:
            return max(values)
        case Aggregation.MIN:
            return min(values)
        case Aggregation.P95:
            # The smallest reading that 95 % of the instances do not exceed: always one that was really taken.
            return sorted(values)[math.ceil(0.95 * len(values)) - 1]
