"""What a matrix came to against the goals that were set for autopilot: a row per goal.

A goal is of a kind of load and of levels. The share of late records is to be so near to what was
asked, from either side: more in time than asked is money wasted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from headgate.core.types import JSON
from headgate.research.promises.matrix import OURS, Cell
from headgate.research.promises.runs import FIXED
from headgate.research.promises.tables import beaten, place


@dataclass(frozen=True)
class Goal:
    """A bound on a figure of each day."""

    kind: str | None
    percentiles: Sequence[float]
    figure: str
    bound: float
    of: Callable[[Cell, float], float]
    """The figure of a cell, given what the best fixed size costs there."""


def _off_points(cell: Cell, fixed_cost: float) -> float:
    return 100 * (cell.run.late_share - cell.allowed_share)


def _cost(cell: Cell, fixed_cost: float) -> float:
    return cell.cost


def _of_fixed(cell: Cell, fixed_cost: float) -> float:
    return cell.cost / fixed_cost


GOALS = (
    Goal("smooth", (95.0,), "points off", 1.0, _off_points),
    Goal("smooth", (99.0,), "points off", 0.4, _off_points),
    Goal("smooth", (90.0, 95.0), "cost", 1.05, _cost),
    Goal("smooth", (99.0,), "cost", 1.15, _cost),
    Goal("noisy", (95.0,), "points off", 0.6, _off_points),
    Goal("noisy", (95.0,), "cost", 1.6, _cost),
    Goal("bursty", (95.0,), "points off", 1.0, _off_points),
    Goal("bursty", (95.0,), "cost", 1.8, _cost),
    Goal("bursty", (95.0,), "of best fixed", 1.0, _of_fixed),
)
RESCALES_PER_HOUR = 12.0
BEATEN_PCT = 3.0


def goal_rows(cells: Sequence[Cell]) -> list[dict[str, JSON]]:
    """A row per goal: what was found, and on how many days it was within the bound."""
    fixed = {place(cell): cell.cost for cell in cells if cell.run.policy == FIXED}
    ours = [cell for cell in cells if cell.run.policy == OURS]
    rows = [_row(goal, ours, fixed) for goal in GOALS]
    for loads, chosen in (("all", cells), ("held back", [cell for cell in cells if not cell.chosen_on])):
        own = [cell.run.rescales_per_hour for cell in chosen if cell.run.policy == OURS]
        if own:
            rows.append(_total(loads, "rescales per hour, in the median", RESCALES_PER_HOUR, median(own), len(own)))
            lost, days = beaten(chosen)
            rows.append(
                _total(loads, "% of days on which another is better on both", BEATEN_PCT, 100 * lost / days, days)
            )
    return rows


def _row(goal: Goal, ours: Sequence[Cell], fixed: dict[tuple[JSON, ...], float]) -> dict[str, JSON]:
    found = [
        (cell, goal.of(cell, fixed.get(place(cell), math.nan)))
        for cell in ours
        if cell.kind == goal.kind
        and cell.percentile in goal.percentiles
        and (place(cell) in fixed or goal.of is not _of_fixed)
    ]
    values = [value for _, value in found]
    held_back = [value for cell, value in found if not cell.chosen_on]
    return {
        "load": goal.kind,
        "asked": ", ".join(f"p{one:g}" for one in goal.percentiles),
        "figure": goal.figure,
        "goal": f"±{goal.bound:g}" if goal.of is _off_points else f"≤ {goal.bound:g}",
        "median": round(median(values), 3) if values else None,
        "least": round(min(values), 3) if values else None,
        "most": round(max(values), 3) if values else None,
        "days": len(values),
        "within": sum(_is_within(goal, value) for value in values),
        "above": sum(value > goal.bound for value in values),
        "held_back": len(held_back),
        "held_back_within": sum(_is_within(goal, value) for value in held_back),
    }


def _total(loads: str, figure: str, bound: float, value: float, days: int) -> dict[str, JSON]:
    return {
        "load": loads,
        "asked": "all",
        "figure": figure,
        "goal": f"≤ {bound:g}",
        "median": round(value, 3),
        "least": None,
        "most": None,
        "days": days,
        "within": None,
        "above": None,
        "held_back": None,
        "held_back_within": None,
    }


def _is_within(goal: Goal, value: float) -> bool:
    return abs(value) <= goal.bound if goal.of is _off_points else value <= goal.bound
