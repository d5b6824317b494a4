"""How long batches of a job take: a fixed part, and a part per record that is divided among the instances.

Fitted to batches that were measured, ``a + s · records / instances``. Where a batch is cut into tasks, what counts is
how many records the slot has that has most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.types import Batch

LEAST_BATCHES = 3


@dataclass(frozen=True, slots=True)
class BatchTimes:
    overhead_s: float
    """What a batch takes however few its records are."""
    rate_per_s: float
    """Records that one instance serves per second, the fixed part aside."""
    cold_factor: float
    """By how much batches took longer while instances came and warmed up."""
    noise: float
    """The standard deviation of the logarithm of the other batches' times, about what was expected of them."""
    batches: int
    """How many it was found from."""


def fit_batch_times(batches: Sequence[Batch], *, cores: int = 1, tasks: int | None = None) -> BatchTimes | None:
    """The times of batches that were measured; ``None`` where they tell too little.

    >>> batches = [Batch(0, 1 + records / 50, records, instances=1) for records in (50, 100, 200)]
    >>> fitted = fit_batch_times(batches)
    >>> round(fitted.overhead_s, 6), round(fitted.rate_per_s, 6)
    (1.0, 50.0)
    """
    told = [batch for batch in batches if batch.records > 0 and batch.instances and batch.processing_time_s > 0]
    typical = [batch for batch in told if not batch.warming]
    if len(typical) < LEAST_BATCHES:
        return None
    shares, times_s = _shares(typical, cores, tasks), np.array([batch.processing_time_s for batch in typical])
    if not np.ptp(shares) > 0:
        return None
    # By what they are off as a share: long batches must not drown the short ones.
    slope_s, overhead_s = np.polyfit(shares, times_s, 1, w=1 / times_s)
    if not slope_s > 0:
        return None
    overhead_s = max(0.0, float(overhead_s))
    expected_s = overhead_s + slope_s * shares
    return BatchTimes(
        overhead_s=overhead_s,
        rate_per_s=float(1 / slope_s),
        cold_factor=_cold_factor([batch for batch in told if batch.warming], overhead_s, slope_s, cores, tasks),
        noise=float(np.std(np.log(times_s / expected_s))),
        batches=len(typical),
    )


def _shares(batches: Sequence[Batch], cores: int, tasks: int | None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Records that an instance has to do on its own, as if it had its share of the slowest slots."""
    return np.array([batch.records * _part(batch.instances or 1, cores, tasks) for batch in batches], dtype=np.float64)


def _part(instances: int, cores: int, tasks: int | None) -> float:
    if tasks is None:
        return 1 / instances
    return math.ceil(tasks / (instances * cores)) * cores / tasks


def _cold_factor(cold: Sequence[Batch], overhead_s: float, slope_s: float, cores: int, tasks: int | None) -> float:
    if not cold:
        return 1.0
    work_s = np.maximum(0.0, np.array([batch.processing_time_s for batch in cold]) - overhead_s)
    return max(1.0, float(np.median(work_s / (slope_s * _shares(cold, cores, tasks)))))
