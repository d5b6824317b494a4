"""Draws a simulated day as a small picture: what arrived, how long records took, and how many executors there were.

The picture of the README is made by two commands::

    headgate simulate --workload "gaussian:base=12,peak=95,center=14h,sigma=4h + spike:base=0,peak=60,at=9h,width=20m |
        noise 10%" --service-rate 10 --startup 60s --seconds 1d --interval 30s --model micro-batch --max 20
        --price 0.25 --json day.json
    python scripts/day_picture.py day.json docs/images/day.svg

It holds the verdict of the run as its description, and follows the reader's choice of a light or dark page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from headgate.core.objective import DAY_S, LatencySlo, parse_objective
from headgate.core.units import format_duration, plain

WIDTH, LEFT, RIGHT = 760, 48, 12
PANELS_PX = {"load": 84, "executors": 84, "latency": 84}
GAP_PX, TOP_PX, BOTTOM_PX = 26, 24, 22
POINTS = 288
"""One for each five minutes of the day."""
TIMES_BOUND = 4.0
"""Latency is drawn up to so many times the bound; what is above says so."""
STYLE = """
svg { font: 12px system-ui, sans-serif; }
.page { fill: #ffffff; } text { fill: #334155; } .axis { stroke: #cbd5e1; fill: none; }
.load { fill: #2563eb33; stroke: #2563eb; } .executors { fill: #0f766e33; stroke: #0f766e; }
.latency { fill: none; stroke: #7c3aed; } .bound { stroke: #dc2626; stroke-dasharray: 5 4; }
.fixed { stroke: #64748b; stroke-dasharray: 5 4; } .bound-text { fill: #dc2626; font-weight: bold; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; } text { fill: #cbd5e1; } .axis { stroke: #334155; }
.load { fill: #60a5fa33; stroke: #60a5fa; } .executors { fill: #2dd4bf33; stroke: #2dd4bf; }
.latency { stroke: #c4b5fd; } .bound { stroke: #f87171; } .fixed { stroke: #94a3b8; }
.bound-text { fill: #f87171; } }
"""

Points = list[tuple[float, float]]


def picture(result: Mapping[str, Any]) -> str:
    """The result of ``headgate simulate --json`` as an SVG."""
    run, verdict = result["run"], result["verdict"]
    if run["seconds"] != DAY_S:
        raise SystemExit(f"the run takes {format_duration(run['seconds'])}; a day was expected.")
    slo = parse_objective(run["objective"]).slo
    if not isinstance(slo, LatencySlo):
        raise SystemExit(f"the objective is {run['objective']}; a limit of the latency was expected.")
    load = _points(result["series"], "input_rate", lambda values: sum(values) / len(values))
    ready = _points(result["series"], "ready", max)
    latency = _points(result["series"], "latency_s", max)
    highest_s = max(value for _, value in latency)
    shown_s = min(max(highest_s, slo.bound_s), TIMES_BOUND * slo.bound_s)
    above = f", at most {round(highest_s)}" if highest_s > shown_s else ""
    fixed = verdict["cheapest_fixed"]
    most = max(value for _, value in [*ready, (0.0, fixed or 0.0)])
    sentences = " ".join(verdict[name] for name in ("outcome", "cost", "fixed") if verdict[name])
    tops = _tops()
    parts = [
        _panel("load", "records per second that arrive", tops["load"], load, max(value for _, value in load)),
        _panel("executors", "executors", tops["executors"], ready, most, steps=True),
        _panel(
            "latency",
            f"the longest latency of {format_duration(DAY_S / POINTS)}, in seconds{above}",
            tops["latency"],
            latency,
            shown_s,
        ),
        _level("bound", f"objective: {slo}", tops["latency"], PANELS_PX["latency"], slo.bound_s / shown_s),
        _hours(),
    ]
    if fixed is not None:
        text = f"the cheapest fixed size that meets it: {fixed}"
        parts.append(_level("fixed", text, tops["executors"], PANELS_PX["executors"], fixed / most))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_height()}" role="img">\n'
        f"<title>A day of a job: load, executors, latency and the objective</title>\n<desc>{escape(sentences)}</desc>\n"
        f'<style>{STYLE}</style>\n<rect class="page" width="{WIDTH}" height="{_height()}" rx="8"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _points(series: Sequence[Mapping[str, Any]], name: str, merge: Callable[[list[float]], float]) -> Points:
    """Return the share of the day and the value of each span of time that has any."""
    spans: dict[int, list[float]] = {}
    for point in series:
        if point[name] is not None:
            spans.setdefault(min(POINTS - 1, int(POINTS * point["t"] / DAY_S)), []).append(float(point[name]))
    return [(place / POINTS, merge(values)) for place, values in sorted(spans.items())]


def _tops() -> dict[str, int]:
    tops, top = {}, TOP_PX
    for name, height in PANELS_PX.items():
        tops[name] = top
        top += height + GAP_PX
    return tops


def _height() -> int:
    return TOP_PX + sum(PANELS_PX.values()) + GAP_PX * (len(PANELS_PX) - 1) + BOTTOM_PX


def _x(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _panel(name: str, title: str, top: int, points: Points, most: float, *, steps: bool = False) -> str:
    height = PANELS_PX[name]
    low = top + height
    places = [(_x(share), round(low - height * min(1.0, value / (most or 1.0)), 1)) for share, value in points]
    path = f"M{places[0][0]} {places[0][1]}"
    for (_, before_y), (x, y) in pairwise(places):
        path += f"H{x}V{y}" if steps and y != before_y else "" if steps else f"L{x} {y}"
    path += f"H{_x(1.0)}"
    if name != "latency":
        path += f"V{low}H{LEFT}Z"
    return (
        f'<text x="{LEFT}" y="{top - 7}">{escape(title)}</text>'
        f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{plain(round(most))}</text>'
        f'<text x="{LEFT - 6}" y="{low}" text-anchor="end">0</text>'
        f'<path class="axis" d="M{LEFT} {top}V{low}H{_x(1.0)}"/><path class="{name}" d="{path}"/>'
    )


def _level(name: str, text: str, top: int, height: int, share: float) -> str:
    y = round(top + height * (1 - share), 1)
    return (
        f'<path class="{name}" d="M{LEFT} {y}H{_x(1.0)}"/>'
        f'<text x="{_x(1.0)}" y="{top - 7}" text-anchor="end">'
        f'<tspan class="{name}-text">- -</tspan> {escape(text)}</text>'
    )


def _hours() -> str:
    anchors = {0: "start", 24: "end"}
    return "".join(
        f'<text x="{_x(hour / 24)}" y="{_height() - 6}" text-anchor="{anchors.get(hour, "middle")}">{hour:02}:00</text>'
        for hour in range(0, 25, 4)
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python scripts/day_picture.py RESULT.json PICTURE.svg")
    Path(sys.argv[2]).write_text(picture(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), encoding="utf-8")
