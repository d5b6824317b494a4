"""Tables and plots of a matrix: a row per level, start-up time, kind of load and policy, and a row per goal.

A goal of autopilot bounds a figure for a kind of load and some levels. The share of late records has to be near the
allowed share from either side, since fewer late records than allowed cost money.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from headgate.core.types import JSON
from headgate.render.page import Plot
from headgate.research.promises.matrix import OURS, Cell
from headgate.research.promises.runs import FIXED

KINDS = ("smooth", "noisy", "bursty")
NEARLY = 0.01
"""A level counts as nearly met if at most this share of all records more than allowed was late; less where less is
allowed."""


def rows_of(cells: Sequence[Cell]) -> list[dict[str, JSON]]:
    """Return the rows of the table in the order of the levels."""
    rows = []
    policies = list(dict.fromkeys(cell.run.policy for cell in cells))
    for objective, startup_s in dict.fromkeys((cell.objective, cell.startup_s) for cell in cells):
        for kind in KINDS:
            there = [
                cell for cell in cells if (cell.objective, cell.startup_s, cell.kind) == (objective, startup_s, kind)
            ]
            for policy in policies:
                own = [cell for cell in there if cell.run.policy == policy]
                if own:
                    rows.append(_row(own, there))
    return rows


def _row(own: Sequence[Cell], there: Sequence[Cell]) -> dict[str, JSON]:
    first = own[0]
    late = [100 * cell.run.late_share for cell in own]
    ours = {(cell.load, cell.seed): cell for cell in there if cell.run.policy == OURS}
    fixed = {(cell.load, cell.seed): cell for cell in there if cell.run.policy == FIXED}
    compared = [(cell.cost, fixed[cell.load, cell.seed].cost) for cell in own if (cell.load, cell.seed) in fixed]
    return {
        "asked": first.objective,
        "startup_s": first.startup_s,
        "load": first.kind,
        "policy": first.run.policy,
        "days": len(own),
        "late_pct": round(median(late), 3),
        "worst_late_pct": round(max(late), 3),
        "kept": sum(is_met(cell) for cell in own),
        "within_a_point": sum(is_nearly_met(cell) for cell in own),
        "cost": round(median(cell.cost for cell in own), 3),
        "worst_cost": round(max(cell.cost for cell in own), 3),
        "of_best_fixed": round(median(cost / other for cost, other in compared), 3) if compared else None,
        "rescales_per_hour": round(median(cell.run.rescales_per_hour for cell in own), 1),
        "undone": sum(cell.run.undone for cell in own),
        "better_on_both": sum(_is_better(cell, ours.get((cell.load, cell.seed))) for cell in own),
    }


def tolerated(allowed_share: float) -> float:
    """Return the share of late records up to which a level counts as nearly met."""
    return allowed_share + NEARLY * min(1.0, 20 * allowed_share)


def is_met(cell: Cell) -> bool:
    """Whether at most the allowed share of the records of the day was late."""
    return cell.run.late_share <= cell.allowed_share


def is_nearly_met(cell: Cell) -> bool:
    return cell.run.late_share <= tolerated(cell.allowed_share)


def _is_better(cell: Cell, ours: Cell | None) -> bool:
    """Whether an online policy is cheaper than ours and has fewer late records."""
    if ours is None or cell.run.policy in (OURS, FIXED):
        return False
    return cell.cost < ours.cost and cell.run.late_share < ours.run.late_share


def beaten(cells: Iterable[Cell]) -> tuple[int, int]:
    """Return on how many days an online policy was cheaper than ours with fewer late records, and of how many."""
    by_place = _by_place(cells)
    ours = {place: cell for place, there in by_place.items() for cell in there if cell.run.policy == OURS}
    return sum(any(_is_better(cell, ours[place]) for cell in by_place[place]) for place in ours), len(ours)


def notes_of(cells: Sequence[Cell]) -> list[str]:
    """Return what no policy met, and how often a contender was better on both figures."""
    lost, days = beaten(cells)
    notes = [
        f"An online contender was both cheaper and less late in {lost} of {days} cells "
        f"({100 * lost / max(1, days):.1f} %)."
    ]
    with_fixed = any(cell.run.policy == FIXED for cell in cells)
    for there in _by_place(cells).values():
        if any(is_met(cell) for cell in there if cell.run.policy != FIXED):
            continue
        first = there[0]
        where = f"{first.load} (day {first.seed}) at a start-up of {first.startup_s:g} s"
        notes.append(f"No policy meets {first.objective} on {where}{_bill(there) if with_fixed else ''}.")
    return notes


def _bill(there: Sequence[Cell]) -> str:
    """Return the cost of a fixed size that meets what no policy does."""
    fixed = [cell for cell in there if cell.run.policy == FIXED]
    return f"; a fixed size that does costs {fixed[0].cost:.2f} times the clairvoyant" if fixed else "; no size does"


def place(cell: Cell) -> tuple[JSON, ...]:
    """Return what a cell has in common with those of the other policies."""
    return cell.objective, cell.startup_s, cell.load, cell.seed


def _by_place(cells: Iterable[Cell]) -> dict[tuple[JSON, ...], list[Cell]]:
    found: dict[tuple[JSON, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(place(cell), []).append(cell)
    return found


def plots_of(cells: Iterable[Cell]) -> list[Plot]:
    """Plot cost against late records, a plot per level."""
    by_level: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        by_level.setdefault(cell.objective, {}).setdefault(cell.run.policy, []).append(cell)
    return [
        Plot(
            f"{objective}: cost and late records, a point per day",
            [
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": policy,
                    "x": [round(cell.cost, 4) for cell in own],
                    "y": [round(max(0.001, 100 * cell.run.late_share), 4) for cell in own],
                    "text": [f"{cell.load}, {cell.startup_s:g} s" for cell in own],
                }
                for policy, own in policies.items()
            ],
            {
                "xaxis": {"title": {"text": "cost relative to the clairvoyant size"}},
                "yaxis": {"title": {"text": "late records (%)"}, "type": "log"},
            },
        )
        for objective, policies in by_level.items()
    ]


@dataclass(frozen=True)
class Goal:
    """A bound on a figure of each day."""

    kind: str | None
    percentiles: Sequence[float]
    figure: str
    bound: float
    of: Callable[[Cell, float], float]
    """Returns the figure of a cell, given the cost of the best fixed size there."""


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
    """Return a row per goal: its figures, and on how many days it was met."""
    fixed = {place(cell): cell.cost for cell in cells if cell.run.policy == FIXED}
    ours = [cell for cell in cells if cell.run.policy == OURS]
    rows = [_goal_row(goal, ours, fixed) for goal in GOALS]
    for loads, chosen in (("all", cells), ("held back", [cell for cell in cells if not cell.chosen_on])):
        own = [cell.run.rescales_per_hour for cell in chosen if cell.run.policy == OURS]
        if own:
            rows.append(_total(loads, "rescales per hour, in the median", RESCALES_PER_HOUR, median(own), len(own)))
            lost, days = beaten(chosen)
            rows.append(
                _total(loads, "% of days on which another is better on both", BEATEN_PCT, 100 * lost / days, days)
            )
    return rows


def _goal_row(goal: Goal, ours: Sequence[Cell], fixed: dict[tuple[JSON, ...], float]) -> dict[str, JSON]:
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
        "asked": ", ".join(f"p{percentile:g}" for percentile in goal.percentiles),
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
