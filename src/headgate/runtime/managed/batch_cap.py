"""Limit the records of a batch to what can be processed within the objective at the present size.

A record that just missed a batch waits for that batch to end and then goes through its own, so a batch may take
somewhat less than half of the bound. A batch without a limit that starts small in a burst runs for minutes, and
executors that start meanwhile cannot make it smaller. A limit that is too low costs more than it gains: each batch has
a fixed cost, and no limit is so low that this cost takes more than a quarter of the time, if the bound allows that.

>>> times = BatchCapModel(overhead_s=0.5, instance_s_per_record=0.005)
>>> cap_for(times, instances=2, bound_s=10.0)   # (4 s - 0.5 s) / 5 ms, on two instances
1400
>>> cap_for(times, instances=2, bound_s=2.0)    # three quarters of a batch must be work: 1.5 s
600
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headgate.core.types import Batch
from headgate.forecast.base import FloatArray

SHARE_OF_BOUND = 0.4
"""Of a batch; two batches in a row then take at most four fifths of the bound."""
LEAST_WORK_SHARE = 0.75
"""At least this share of the time of a full batch must be work on records, if the bound allows it; half otherwise."""
SHARE_TO_LEARN = 0.8
"""While batches of one size hide the fixed cost, a batch may take this share of the bound: all of its time is
attributed to records, so it takes less, and then both are known. With smaller steps, a large limit takes a minute."""
SEPARABLE_FROM = 1.5
"""The fixed cost and the cost of a record are separated once batches differ in size by this factor."""
LIKE = 0.05
"""Pairs of batches whose sizes differ by less than this share of the largest are not compared."""
FEWEST_BATCHES = 3
MOST_CAUTIOUS = 4.0
"""One batch that was too slow lowers a limit by this factor at most."""


@dataclass(frozen=True, slots=True)
class BatchCapModel:
    """How long a batch takes: a fixed time, and a time for each record that is shared by the instances."""

    overhead_s: float
    instance_s_per_record: float
    is_separated: bool = True
    """Whether both are known; otherwise all of the time is attributed to records."""

    def seconds(self, records: float, instances: int) -> float:
        """Return how long a batch of so many records takes."""
        return self.overhead_s + self.instance_s_per_record * records / max(1, instances)


def learn_times(batches: Iterable[Batch], most_useful: int | None = None) -> BatchCapModel | None:
    """Fit the model to ended batches, without those that are not typical; return ``None`` before there are enough.

    ``most_useful``: the most instances that share the work.
    """
    usable = [batch for batch in batches if batch.records > 0 and batch.instances and not batch.warming]
    if len(usable) < FEWEST_BATCHES:
        return None
    shares = np.array([batch.records / min(batch.instances or 1, most_useful or math.inf) for batch in usable])
    seconds = np.array([batch.processing_time_s for batch in usable])
    if seconds.sum() <= 0:
        return None
    overhead_s = 0.0
    is_separated = bool(shares.max() >= SEPARABLE_FROM * shares.min())
    if is_separated:
        slope = _slope(shares, seconds)
        overhead_s = float(np.clip(np.median(seconds - slope * shares), 0.0, seconds.min()))
    per_record_s = float(np.median((seconds - overhead_s) / shares))
    return BatchCapModel(overhead_s, per_record_s, is_separated) if per_record_s > 0 else None


def _slope(shares: FloatArray, seconds: FloatArray) -> float:
    """Return the cost of another record: the median over all pairs of batches, robust against slow batches."""
    first, second = np.triu_indices(len(shares), 1)
    apart = shares[second] - shares[first]
    differ = np.abs(apart) > LIKE * shares.max()
    return float(np.median((seconds[second] - seconds[first])[differ] / apart[differ]))


def cautious_cap(batch: Batch, bound_s: float) -> int:
    """Return a limit while only one batch is known, which may have been slow because it was the first.

    >>> cautious_cap(Batch(0.0, 8.0, 1000), bound_s=10.0)
    500
    """
    share = SHARE_OF_BOUND * bound_s / max(1e-9, batch.processing_time_s)
    return max(1, round(batch.records * max(1 / MOST_CAUTIOUS, min(1.0, share))))


def cap_for(times: BatchCapModel, instances: int, bound_s: float) -> int:
    """Return the most records of a batch on so many instances, for a bound on the latency of each record."""
    share = SHARE_OF_BOUND if times.is_separated else SHARE_TO_LEARN
    work_s = max(0.0, share * bound_s - times.overhead_s)
    least_work_s = times.overhead_s * LEAST_WORK_SHARE / (1 - LEAST_WORK_SHARE)
    least_work_s = max(times.overhead_s, min(least_work_s, bound_s - times.overhead_s))
    return max(1, round(max(work_s, least_work_s) / times.instance_s_per_record * max(1, instances)))
