"""The report of a league: ranks, strengths and weaknesses of each policy, and cost against late records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median

from headgate.core.types import JSON
from headgate.core.units import plain
from headgate.lab.experiments.report import COLOURS, SYMBOLS
from headgate.lab.experiments.results import LabResults
from headgate.lab.experiments.summary import failures_of
from headgate.lab.scenario import ScenarioOutcome
from headgate.render.page import Plot, line
from headgate.research.league.standings import BEST_FIXED, CLOSE, Contest, League, hours
from headgate.research.promises.tables import NEARLY

OURS = "autopilot"
GOOD_MET, GOOD_COST = 0.9, 1.1
"""Good means meeting nine of ten objectives at a median cost of at most a tenth more than the first."""
BAD_MET, BAD_COST = 0.5, 1.5
MOST_NAMED = 4


def league_outcome(results: LabResults) -> ScenarioOutcome:
    """Return the table, the notes and the plots of a league."""
    league = League(results)
    return ScenarioOutcome(
        rows=[row.to_json() for row in league.standings()],
        notes=[
            *_read_as(results, league),
            *_ours(results, league),
            *_lines(league),
            *results.unfinished,
            *failures_of(results.groups),
        ],
        plots=[_over_all(league), *(_of_workload(league, name) for name in _workloads(league))],
        details=_details(league),
    )


def _read_as(results: LabResults, league: League) -> list[str]:
    runs = max(group.runs for group in results.groups)
    notes = [
        f"place: mean over {len(league.contests)} contests (a workload with a job), by cost of those that met the "
        "objective; the others share the last place. The percentage after it: contests in which every repeat met the "
        f"objective; nearly %: in which on average at most {100 * NEARLY:g} point more than allowed was late. "
        f"first %: contests in which it was the cheapest that met the objective, or within {100 * (CLOSE - 1):.0f} % "
        "of that. cost, worst: instance-hours over those of the first, median and most, where met. late %: mean.",
    ]
    if league.fixed:
        notes.append(
            f"{BEST_FIXED}: the cheapest of {len(league.fixed)} fixed sizes that met the objective of a contest. It "
            "is known only afterwards, so it takes no place."
        )
    if runs == 1:
        notes.append("A single run says nothing about noise: repeats may show that places are due to chance.")
    unmet = [" · ".join(contest[:2]) for contest, costs in league.costs.items() if not costs]
    if unmet:
        notes.append(f"Not met by any policy, and not counted: {'; '.join(unmet)}.")
    return notes


def _ours(results: LabResults, league: League) -> list[str]:
    """Return the sentence on how often our policy is first."""
    if OURS not in league.policies:
        return []
    nearly = League(results, nearly=True)
    shares = [
        f"{close} of {judged} {what} ({100 * close / judged:.0f} %)"
        for what, traces_only in (("traces", True), ("workloads", False))
        for close, judged in [league.close_workloads(OURS, traces_only=traces_only)]
        if judged
    ]
    close, judged = nearly.close_workloads(OURS, traces_only=False)
    shares += [f"with a point forgiven {close} of {judged} workloads ({100 * close / judged:.0f} %)"] if judged else []
    if not shares:
        return []
    return [f"{OURS} is first, or within {100 * (CLOSE - 1):.0f} % of the first, on {', '.join(shares)}."]


def _lines(league: League) -> list[str]:
    return [_line(league, policy) for policy in (row.policy for row in league.standings()) if policy != BEST_FIXED]


def _line(league: League, policy: str) -> str:
    """Return the sentence on the strengths and weaknesses of a policy."""
    good: list[str] = []
    bad: list[str] = []
    for trait, contests in _by_trait(league).items():
        there = [contest for contest in contests if policy in league.contests[contest]]
        costs = [league.costs[contest][policy] for contest in there if policy in league.costs[contest]]
        judged = [contest for contest in there if league.costs[contest]]
        if not judged:
            continue
        met, cost = len(costs) / len(judged), median(costs) if costs else None
        if met >= GOOD_MET and cost is not None and cost <= GOOD_COST:
            good.append(trait)
        elif met < BAD_MET:
            bad.append(f"{trait} (meets {100 * met:.0f} %)")
        elif cost is not None and cost > BAD_COST:
            bad.append(f"{trait} ({plain(round(cost, 2))} times the cost)")
    firsts = [name for name, costs in league.workload_costs.items() if costs.get(policy) == 1.0]
    named = ", ".join(firsts[:MOST_NAMED]) + (
        f" and {len(firsts) - MOST_NAMED} more" if len(firsts) > MOST_NAMED else ""
    )
    parts = [f"good on {', '.join(good) or 'no kind of contest as a whole'}"]
    parts += [f"not on {', '.join(bad)}"] if bad else []
    parts += [f"first on {named}"] if firsts else []
    return f"{policy}: {'; '.join(parts)}."


def _by_trait(league: League) -> dict[str, list[Contest]]:
    found: dict[str, list[Contest]] = {}
    for contest in league.contests:
        for trait in league.traits(contest):
            found.setdefault(trait, []).append(contest)
    return dict(sorted(found.items()))


def _workloads(league: League) -> list[str]:
    return list(dict.fromkeys(workload for workload, _, _ in league.contests))


def _details(league: League) -> list[Mapping[str, JSON]]:
    """Return the cost of each policy over that of the first, by contest; ``None`` where the objective was missed."""
    return [
        {
            "workload": contest[0],
            "job": contest[1],
            "objective": contest[2],
            "traits": league.traits(contest),
            "first": min((name for name in costs if name != BEST_FIXED), key=costs.__getitem__) if costs else None,
            "cost": {policy: costs.get(policy) for policy in (*league.policies, BEST_FIXED)},
            "late_pct": {policy: league.late_pct(group) for policy, group in league.contests[contest].items()},
        }
        for contest, costs in league.costs.items()
    ]


# ------------------------------------------------------------------------------------------------------------ plots


def _over_all(league: League) -> Plot:
    """Plot the cost of each policy, also of those that missed the objective, over that of the cheapest that met it."""
    points: dict[str, tuple[float, float]] = {}
    judged = [contest for contest, costs in league.costs.items() if costs]
    for policy in (*league.policies, BEST_FIXED):
        found = [(contest, _point(league, contest, policy)) for contest in judged]
        there = [(point[0] / _least(league, contest), point[1]) for contest, point in found if point is not None]
        if there:
            points[policy] = (median(cost for cost, _ in there), mean(late for _, late in there))
    return _plot("All contests", points, "cost over the first's, median", league, with_names=True)


def _least(league: League, contest: Contest) -> float:
    return min(
        hours(group)
        for policy, group in league.contests[contest].items()
        if policy != BEST_FIXED and policy in league.costs[contest]
    )


def _of_workload(league: League, workload: str) -> Plot:
    points: dict[str, tuple[float, float]] = {}
    contests = [contest for contest in league.contests if contest[0] == workload]
    for policy in (*league.policies, BEST_FIXED):
        there = [point for contest in contests if (point := _point(league, contest, policy)) is not None]
        if len(there) == len(contests):
            points[policy] = (sum(cost for cost, _ in there), mean(late for _, late in there))
    return _plot(workload, points, f"instance-hours, jobs: {', '.join(job for _, job, _ in contests)}", league)


def _point(league: League, contest: Contest, policy: str) -> tuple[float, float] | None:
    """Return instance-hours and the late share, if both are known."""
    group = league.contests[contest].get(policy)
    late = None if group is None else league.late_pct(group)
    return None if group is None or late is None or not math.isfinite(hours(group)) else (hours(group), late)


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the Pareto front, the cheapest first.

    >>> pareto({"a": (1.0, 5.0), "b": (2.0, 1.0), "c": (2.5, 3.0), "d": (2.0, 1.5)})
    ['a', 'b']
    """
    front: list[str] = []
    for name in sorted(points, key=points.__getitem__):
        if not front or points[name][1] < points[front[-1]][1]:
            front.append(name)
    return front


def _plot(
    title: str, points: Mapping[str, tuple[float, float]], cost: str, league: League, *, with_names: bool = False
) -> Plot:
    """Plot cost against late records, with a legend or only with names at the most important points."""
    front = pareto(points)
    names = [*league.policies, BEST_FIXED]
    dotted = line(
        "Pareto front",
        [points[name][0] for name in front],
        [points[name][1] for name in front],
        line={"dash": "dot", "color": "#888888"},
        hoverinfo="skip",
    )
    marks = [_mark(name, points[name], names.index(name), _side(name, front)) for name in names if name in points]
    return Plot(
        title,
        [dotted, *marks],
        {
            # On a linear axis, a policy that costs many times as much would squeeze the others into a corner.
            "xaxis": {"title": {"text": cost}, "type": "log", "showline": True, **_ticks(points.values())},
            "yaxis": {"title": {"text": "late, %"}, "rangemode": "tozero"},
            "margin": {"t": 24, "r": 24, "b": 60, "l": 60},
            "showlegend": with_names,
            # Room for each policy's name.
            "height": 90 + 21 * len(points) if with_names else 420,
        },
        "A point is a policy: its instance-hours, on a logarithmic scale, against the late share of what the "
        "objective counts. Dotted: the Pareto front."
        + ("" if with_names else " Symbols are those of the first plot; hover for the other names."),
    )


def _ticks(points: Iterable[tuple[float, float]]) -> dict[str, JSON]:
    """Return whole numbers as ticks of a logarithmic axis; plotly itself writes 200 as a small 2.

    >>> _ticks([(30.0, 1.0), (320.0, 2.0)])["ticktext"]
    ['50', '100', '200']
    """
    costs = [cost for cost, _ in points if cost > 0]
    if not costs:
        return {}
    tens = range(math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs))) + 1)
    steps = (1, 2, 5) if max(costs) > 3 * min(costs) else (1, 1.5, 2, 3, 4, 5, 7)
    values = [step * 10.0**ten for ten in tens for step in steps]
    shown = [value for value in values if min(costs) <= value <= max(costs)]
    return {"tickvals": shown, "ticktext": [f"{value:g}" for value in shown]}


def _side(name: str, front: Sequence[str]) -> str | None:
    """Return the position of a point's name; neighbours on the front alternate sides."""
    if name in front and name != BEST_FIXED:
        return "bottom left" if front.index(name) % 2 == 0 else "top right"
    return "top right" if name in (OURS, BEST_FIXED) else None


def _mark(name: str, point: tuple[float, float], index: int, side: str | None) -> Mapping[str, JSON]:
    """Return the marker of a policy, which is the same in every plot."""
    return {
        "type": "scatter",
        "mode": "markers" if side is None else "markers+text",
        "text": [name],
        "textposition": side or "top center",
        "hovertemplate": "%{text}: %{x:.4g}, late %{y:.3g} %<extra></extra>",
        "cliponaxis": False,
        "name": name,
        "x": [point[0]],
        "y": [point[1]],
        "marker": {"symbol": SYMBOLS[index % len(SYMBOLS)], "color": COLOURS[index % len(COLOURS)], "size": 11},
    }
