"""A lab run as an HTML page: its table, and a plot of cost against lateness for each contest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.core.types import JSON
from headgate.lab.experiments.results import LabResults
from headgate.lab.experiments.run_case import FIGURES
from headgate.lab.experiments.summary import COST, RepeatGroup
from headgate.lab.measures.measures import Estimate
from headgate.lab.scenario import ScenarioOutcome, write_scenario_report
from headgate.render.page import ALL_PCT, Plot, error_bars, number

MOST_PLOTS = 24
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star", "hexagon", "bowtie")
"""Symbols distinguish policies without colour as well."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
"""The palette of Okabe and Ito, distinguishable by colour-blind readers on light and dark backgrounds."""
_SHOWN = ("instance_hours", "cost", "late_records_pct", "slo_violation_pct", "latency_p95_s", "rescales_per_day")


def write_results_report(path: Path, results: LabResults) -> Path:
    runs = (
        f"{results.done} simulated runs" if results.done == results.total else f"{results.done} of {results.total} runs"
    )
    summary = f"{runs}; means over repeats, all figures simulated."
    return write_scenario_report(path, results.name, summary, outcome_of(results))


def outcome_of(results: LabResults) -> ScenarioOutcome:
    return ScenarioOutcome(
        rows=[_row(group, verdict) for group, verdict in results.rows], notes=results.notes, plots=_plots(results)
    )


def _row(group: RepeatGroup, verdict: str) -> dict[str, JSON]:
    row: dict[str, JSON] = {
        "workload": group.workload,
        "job": group.job,
        "objective": group.objective,
        "policy": group.policy,
        "verdict": str(verdict),
        "kept": f"{group.met} of {group.runs}",
    }
    return row | {FIGURES[name]: with_interval(group.figures[name]) for name in _SHOWN}


def with_interval(found: Estimate | None) -> str:
    """Return a mean with its interval, rounded to two digits of the interval.

    >>> with_interval(Estimate(0.63412, 0.019, 4)), with_interval(Estimate(12.0, None, 1))
    ('0.634 ± 0.030', '12')
    >>> with_interval(Estimate(12345.6, 700.0, 4))
    '12,346 ± 1,114'
    """
    if found is None:
        return ""
    if not found.half_width:
        return number(found.mean)
    places = max(0, 1 - math.floor(math.log10(found.half_width)))
    # At most three digits of the mean.
    places = min(places, max(0, 2 - math.floor(math.log10(max(abs(found.mean), 1e-3)))))
    return f"{found.mean:,.{places}f} ± {found.half_width:,.{places}f}"


def _plots(results: LabResults) -> list[Plot]:
    contests: dict[tuple[str, str, str], list[RepeatGroup]] = {}
    for group in results.groups:
        contests.setdefault(group.contest, []).append(group)
    policies = list(dict.fromkeys(group.policy for group in results.groups))
    return [
        Plot(
            " · ".join(contest),
            [_points(group, policies.index(group.policy)) for group in groups],
            {
                "xaxis": {"title": {"text": FIGURES[COST]}, "rangemode": "tozero"},
                "yaxis": {"title": {"text": FIGURES[_lateness(groups)]}, "rangemode": "tozero"},
            },
            "A point is a policy, the mean of its repeats; the lines through it are 95 % intervals of that mean.",
        )
        for contest, groups in list(contests.items())[:MOST_PLOTS]
        if any(group.figures[COST] for group in groups)
    ]


def _lateness(groups: Sequence[RepeatGroup]) -> str:
    """Return late records for latency objectives, and time in violation otherwise."""
    return "late_records_pct" if any(group.figures["late_records_pct"] for group in groups) else "slo_violation_pct"


def _bars(found: Estimate | None, most: float | None = None) -> dict[str, JSON]:
    return error_bars([None if found is None else found.mean], [None if found is None else found.half_width], most)


def _points(group: RepeatGroup, index: int) -> Mapping[str, JSON]:
    """Return a policy's point, which looks the same in every plot."""
    cost, late = group.figures[COST], group.figures[_lateness([group])]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": group.policy,
        "x": [None if cost is None else cost.mean],
        "y": [None if late is None else late.mean],
        "error_x": _bars(cost),
        "error_y": _bars(late, ALL_PCT),
        "marker": {"symbol": SYMBOLS[index % len(SYMBOLS)], "color": COLOURS[index % len(COLOURS)], "size": 11},
    }
