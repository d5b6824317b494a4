"""One simulated week of one application under one policy, minute by minute but decided block by block.

The same sizing code as the registered policies use, without the window of observations around it; a test holds the two
against each other. The reading of minute t is known at t. A block is ``BLOCK`` minutes; instances that are added are
ready ``STARTUP`` minutes later, those that are removed are gone at once. What a size sustains is drawn once per block
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
    """What decides the sizes of a run."""

    @property
    def lead(self) -> int:
        """Minutes before a block at which its size is decided."""
        ...

    def read(self, instances: int, load: float, sustained: float | None) -> None:
        """Is told what arrived in a minute and, where that was not enough, what a size sustained."""
        ...

    def decide(self, minute: int) -> int | None:
        """The size of the coming block, from what is known at a minute."""
        ...

    def begin(self, minute: int, decided: int) -> int:
        """The size when the block begins, at most what was decided."""
        ...


@dataclass(frozen=True)
class Week:
    """What a run came to, one value per minute."""

    load: FloatArray
    sizes: NDArray[np.int64]
    """Instances that were ready."""
    sustained: FloatArray
    """What they could carry."""
    planned: NDArray[np.int64]
    """Instances that were ready or starting."""


def run_week(load: FloatArray, means: FloatArray, deviations: FloatArray, draws: FloatArray, sizer: Sizer) -> Week:
    """Simulate; ``draws`` has one standard normal number per block, ``means`` and ``deviations`` one entry per size."""
    minutes = len(load)
    sizes, asked = np.empty(minutes, dtype=np.int64), np.empty(minutes, dtype=np.int64)
    # A run begins with what its first load needs.
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
        sizes[minute], asked[minute] = ready, planned
    index = sizes - 1
    return Week(load, sizes, means[index] + deviations[index] * np.repeat(draws, BLOCK)[:minutes], asked)


@dataclass(frozen=True, slots=True)
class Measures:
    qos_pct: float
    """Eq. 22: share of minutes in which the job could carry more than arrived."""
    load_weighted_qos_pct: float
    """The same share, of records."""
    relative_cost_truth: float
    """Eq. 23: instances used over the least that would have done in each minute."""
    relative_cost_started: float
    """Eq. 23 with instances charged from the moment they are asked for."""
    relative_cost_static: float
    """Eq. 24, with the parentheses it lacks: instances used over those of a size fixed at the peak."""
    worst_backlog_peak_minutes: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def least_sizes(load: FloatArray, means: FloatArray, deviations: FloatArray, draws: FloatArray) -> NDArray[np.int64]:
    """The least size of each minute whose throughput, as it was drawn, exceeded the load; else the strongest size."""
    sizes = np.empty(len(load), dtype=np.int64)
    for block, draw in enumerate(draws):
        minutes = slice(block * BLOCK, (block + 1) * BLOCK)
        sustained = means + draw * deviations
        # What some size carries, every larger index of the running maximum does too.
        reached = np.searchsorted(np.maximum.accumulate(sustained), load[minutes], side="right")
        sizes[minutes] = np.where(reached < len(means), reached, np.argmax(sustained)) + 1
    return sizes


def backlogs(week: Week) -> FloatArray:
    """What waits at the end of each minute, in minutes of the load's unit."""
    waiting = np.empty(len(week.load))
    level = 0.0
    for minute, surplus in enumerate(week.load - week.sustained):
        level = max(0.0, level + float(surplus))
        waiting[minute] = level
    return waiting


def measure(week: Week, least: NDArray[np.int64]) -> Measures:
    kept = week.sustained > week.load
    return Measures(
        qos_pct=100 * float(np.mean(kept)),
        load_weighted_qos_pct=100 * float(np.sum(week.load[kept]) / np.sum(week.load)),
        relative_cost_truth=float(np.sum(week.sizes) / np.sum(least)),
        relative_cost_started=float(np.sum(week.planned) / np.sum(least)),
        relative_cost_static=float(np.sum(week.sizes) / (len(least) * np.max(least))),
        worst_backlog_peak_minutes=float(np.max(backlogs(week)) / np.max(week.load)),
    )
