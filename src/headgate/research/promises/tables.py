"""What the cells of a matrix come to: a row per level, start-up time, kind of load and policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from headgate.core.types import JSON
from headgate.render.plots import Plot
from headgate.research.promises.matrix import OURS, Cell
from headgate.research.promises.runs import FIXED

KINDS = ("smooth", "noisy", "bursty")
MET_WITHIN = 0.01
"""A level counts as kept where at most a hundredth of all records more than allowed was late; less where less is."""


def rows_of(cells: Sequence[Cell]) -> list[dict[str, JSON]]:
    """The rows of the table, levels as they were asked."""
    rows = []
    policies = list(dict.fromkeys(cell.run.policy for cell in cells))
    for asked, startup_s in dict.fromkeys((cell.asked, cell.startup_s) for cell in cells):
        for kind in KINDS:
            there = [cell for cell in cells if (cell.asked, cell.startup_s, cell.kind) == (asked, startup_s, kind)]
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
        "asked": first.asked,
        "startup_s": first.startup_s,
        "load": first.kind,
        "policy": first.run.policy,
        "days": len(own),
        "late_pct": round(median(late), 3),
        "worst_late_pct": round(max(late), 3),
        "kept": sum(is_met(cell) for cell in own),
        "cost": round(median(cell.cost for cell in own), 3),
        "worst_cost": round(max(cell.cost for cell in own), 3),
        "of_best_fixed": round(median(cost / other for cost, other in compared), 3) if compared else None,
        "rescales_per_hour": round(median(cell.run.rescales_per_hour for cell in own), 1),
        "undone": sum(cell.run.undone for cell in own),
        "better_on_both": sum(_is_better(cell, ours.get((cell.load, cell.seed))) for cell in own),
    }


def is_met(cell: Cell) -> bool:
    return cell.run.late_share <= cell.allowed_share + MET_WITHIN * min(1.0, 20 * cell.allowed_share)


def _is_better(cell: Cell, ours: Cell | None) -> bool:
    """Whether a policy that decides as it goes is cheaper than ours, and makes fewer records late."""
    if ours is None or cell.run.policy in (OURS, FIXED):
        return False
    return cell.cost < ours.cost and cell.run.late_share < ours.run.late_share


def beaten(cells: Iterable[Cell]) -> tuple[int, int]:
    """On how many days somebody that decides as it goes was cheaper than ours and less late, and of how many."""
    by_place = _by_place(cells)
    ours = {place: cell for place, there in by_place.items() for cell in there if cell.run.policy == OURS}
    return sum(any(_is_better(cell, ours[place]) for cell in by_place[place]) for place in ours), len(ours)


def notes_of(cells: Sequence[Cell]) -> list[str]:
    """What no policy kept, and how often a contender was better on both."""
    lost, days = beaten(cells)
    notes = [
        f"A contender that decides as it goes was both cheaper and less late in {lost} of {days} cells "
        f"({100 * lost / max(1, days):.1f} %)."
    ]
    with_fixed = any(cell.run.policy == FIXED for cell in cells)
    for there in _by_place(cells).values():
        if any(is_met(cell) for cell in there if cell.run.policy != FIXED):
            continue
        first = there[0]
        where = f"{first.load} (day {first.seed}) at a start-up of {first.startup_s:g} s"
        notes.append(f"No policy keeps {first.asked} on {where}{_bill(there) if with_fixed else ''}.")
    return notes


def _bill(there: Sequence[Cell]) -> str:
    """What a fixed size costs that keeps what no policy does."""
    fixed = [cell for cell in there if cell.run.policy == FIXED]
    return f"; a fixed size that does costs {fixed[0].cost:.2f} times the clairvoyant" if fixed else "; no size does"


def place(cell: Cell) -> tuple[JSON, ...]:
    """What a cell shares with those of the other policies."""
    return cell.asked, cell.startup_s, cell.load, cell.seed


def _by_place(cells: Iterable[Cell]) -> dict[tuple[JSON, ...], list[Cell]]:
    found: dict[tuple[JSON, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(place(cell), []).append(cell)
    return found


def plots_of(cells: Iterable[Cell]) -> list[Plot]:
    """Cost against lateness, a plot per level."""
    by_level: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        by_level.setdefault(cell.asked, {}).setdefault(cell.run.policy, []).append(cell)
    return [
        Plot(
            f"Asked for {asked}: cost and late records, a point per day",
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
                "xaxis": {"title": {"text": "cost, times the clairvoyant's"}},
                "yaxis": {"title": {"text": "late records (%)"}, "type": "log"},
            },
        )
        for asked, policies in by_level.items()
    ]
