"""A simulated week of an application under a policy, minute by minute with a decision per block.

It uses the sizing code of the registered policies without their window of observations; a test compares the two. The
reading of minute t is known at t. A block is ``BLOCK`` minutes; instances that are added are
ready ``STARTUP`` minutes later, removed instances stop at once. The throughput of a size is drawn once per block
(the document compares ten loads with one draw), and the draws of a run are the same for every policy. Within a minute,
the order is: instances that were started are ready, the minute is read, the policy decides, and the minute is charged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.base import FloatArray

BLOCK = 10
STARTUP = 2


class Sizer(Protocol):
    """Decides the sizes of a run."""

    @property
    def lead(self) -> int:
        """Minutes before a block at which its size is decided."""
        ...

    def read(self, instances: int, load: float, sustained: float | None) -> None:
        """Take in the arrivals of a minute and, if these exceeded the throughput, what the size sustained."""
        ...

    def decide(self, minute: int) -> int | None:
        """Return the size of the coming block from what is known at a minute."""
        ...

    def begin(self, minute: int, decided: int) -> int:
        """Return the size when the block begins, at most the decided size."""
        ...


@dataclass(frozen=True)
class Week:
    """The time series of a run, a value per minute."""

    load: FloatArray
    sizes: NDArray[np.int64]
    """Instances that were ready."""
    sustained: FloatArray
    """Throughput of the ready instances."""
    planned: NDArray[np.int64]
    """Instances that were ready or starting."""


def run_week(load: FloatArray, means: FloatArray, deviations: FloatArray, draws: FloatArray, sizer: Sizer) -> Week:
    """Simulate a week; ``draws`` are standard normal, one per block, ``means`` and ``deviations`` are per size."""
    minutes = len(load)
    sizes, requested = np.empty(minutes, dtype=np.int64), np.empty(minutes, dtype=np.int64)
    # The first size is what the first load needs.
    enough = means > load[0]
    ready = planned = int(np.argmax(enough) if enough.any() else np.argmax(means)) + 1
    ready_from = 0
    target = planned
    lead = sizer.lead
    for minute in range(minutes):
        if minute >= ready_from:
            ready = planned
        sustained = means[ready - 1] + deviations[ready - 1] * draws[minute // BLOCK]
        sizer.read(ready, load[minute], sustained if load[minute] >= sustained else None)
        if (minute + lead) % BLOCK == 0 or minute == 0:
            target = sizer.decide(minute) or planned
            if target > planned:
                planned = target
                ready_from = minute + STARTUP
        if minute % BLOCK == 0:
            target = sizer.begin(minute, target)
            if target < planned:
                planned = target
                ready = min(ready, target)
        sizes[minute], requested[minute] = ready, planned
    index = sizes - 1
    return Week(load, sizes, means[index] + deviations[index] * np.repeat(draws, BLOCK)[:minutes], requested)


@dataclass(frozen=True, slots=True)
class WeekMeasures:
    qos_pct: float
    """Eq. 22: share of minutes in which the throughput exceeded the arrivals."""
    load_weighted_qos_pct: float
    """The same share, of records."""
    relative_cost_truth: float
    """Eq. 23: instances used over the least sufficient ones of each minute."""
    relative_cost_started: float
    """Eq. 23 with instances charged from their request on."""
    relative_cost_static: float
    """Eq. 24, with the parentheses it lacks: instances used over those of a size fixed at the peak."""
    worst_backlog_peak_minutes: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def least_sizes(load: FloatArray, means: FloatArray, deviations: FloatArray, draws: FloatArray) -> NDArray[np.int64]:
    """Return the least size of each minute whose drawn throughput exceeded the load; else the strongest size."""
    sizes = np.empty(len(load), dtype=np.int64)
    for block, draw in enumerate(draws):
        minutes = slice(block * BLOCK, (block + 1) * BLOCK)
        sustained = means + draw * deviations
        # The running maximum makes the throughput non-decreasing, so that it can be searched.
        reached = np.searchsorted(np.maximum.accumulate(sustained), load[minutes], side="right")
        sizes[minutes] = np.where(reached < len(means), reached, np.argmax(sustained)) + 1
    return sizes


def backlogs(week: Week) -> FloatArray:
    """Return the backlog at the end of each minute, in minutes of the load's unit."""
    waiting = np.empty(len(week.load))
    level = 0.0
    for minute, surplus in enumerate(week.load - week.sustained):
        level = max(0.0, level + float(surplus))
        waiting[minute] = level
    return waiting


def measure(week: Week, least: NDArray[np.int64]) -> WeekMeasures:
    is_met = week.sustained > week.load
    return WeekMeasures(
        qos_pct=100 * float(np.mean(is_met)),
        load_weighted_qos_pct=100 * float(np.sum(week.load[is_met]) / np.sum(week.load)),
        relative_cost_truth=float(np.sum(week.sizes) / np.sum(least)),
        relative_cost_started=float(np.sum(week.planned) / np.sum(least)),
        relative_cost_static=float(np.sum(week.sizes) / (len(least) * np.max(least))),
        worst_backlog_peak_minutes=float(np.max(backlogs(week)) / np.max(week.load)),
    )
