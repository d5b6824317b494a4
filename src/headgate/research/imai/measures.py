"""How a week went: eqs. 22 to 24 of the document, and what eq. 22 does not see.

A policy that gives up exactly the minutes of highest load looks good by eq. 22, which counts minutes. Beside it stand
the share of *records* that arrived in minutes in which the job kept up, and the highest backlog, in minutes that it
would take at peak load to offer as much.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.base import FloatArray
from headgate.research.imai.kernel import BLOCK, Week


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
