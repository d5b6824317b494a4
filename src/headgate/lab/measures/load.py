"""A workload as steps of equal length, for those who reckon with arrays."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.workloads.contract import Workload


def step_rates_per_s(workload: Workload, seconds: float, step_s: float) -> FloatArray:
    """Records per second, the mean of each step; the last step may be cut off.

    It is kept for the next who asks, as many policies are measured on one load.
    """
    return _kept(_Load(workload), seconds, step_s)


def step_edges_s(seconds: float, step_s: float) -> FloatArray:
    """Where steps begin, and where the last one ends."""
    count = max(1, int(np.ceil(seconds / step_s - 1e-9)))
    return np.append(np.arange(count) * step_s, seconds)


class _Load(Hashable):
    """A workload that is itself only: two that are equal may not know it, and some cannot be hashed."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Load) and other.workload is self.workload


@lru_cache(maxsize=16)
def _kept(load: _Load, seconds: float, step_s: float) -> FloatArray:
    edges_s = step_edges_s(seconds, step_s)
    arrived = np.array([load.workload.arrivals(0.0, edge_s) for edge_s in edges_s.tolist()])
    rates: FloatArray = np.diff(arrived) / np.diff(edges_s)
    rates.flags.writeable = False
    return rates
