"""The plots of a report, as the data and layout that plotly's script takes.

They are plain dictionaries: plotly's Python classes would check them once more at the price of a slow import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from textwrap import wrap

from headgate.core.objective import LatencySlo, Objective, Slo
from headgate.core.types import JSON, Instances, Instant, Observation, Sample
from headgate.core.units import format_duration
from headgate.journal.findings import budget_course
from headgate.render.story import Item, Row, RowKind, is_decision_on, row_of

MAX_POINTS = 4000
"""A line of more points than a screen has pixels is thinned to its peaks."""

# Named after the variables of the page's style sheet, which gives them a value for light, dark and paper.
RATE, BACKLOG, LATENCY, BOUND, READY, PLANNED = "rate", "backlog", "latency", "bound", "ready", "planned"
BUDGET = "budget"
OUT, IN, STOPPED = "out", "in", "stopped"

_MARKERS = {
    RowKind.OUT: ("scale out", OUT, "triangle-up"),
    RowKind.IN: ("scale in", IN, "triangle-down"),
    RowKind.STOPPED: ("stopped by a guard", STOPPED, "circle-open"),
    RowKind.CAPPED: ("capped at the maximum", BOUND, "square-open"),
    RowKind.ADVICE: ("recommended", RATE, "diamond-open"),
}
_SIGNS = {"triangle-up": "▲", "triangle-down": "▼", "circle-open": "○", "square-open": "□", "diamond-open": "◇"}
_PANELS = ("Input rate, records/s", "Backlog, records", "Latency, seconds", "Instances", "Error budget spent, %")
_INSTANCES, _BUDGET = 4, 5
_HEIGHT = 215
"""Of a panel, in pixels."""
_BUDGET_POINTS = 400
_GAP = 0.055
_WRAP = 60


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of the time axis."""

    name: str
    seconds: float

    @classmethod
    def of(cls, run_s: float) -> TimeUnit:
        """Return the unit in which the run has small numbers."""
        if run_s <= 300:
            return cls("seconds", 1.0)
        if run_s <= 4 * 3600:
            return cls("minutes", 60.0)
        return cls("hours", 3600.0) if run_s <= 4 * 86400 else cls("days", 86400.0)


def figure(
    observations: Sequence[Observation], items: Sequence[Item], objective: Objective, operator: str
) -> dict[str, JSON]:
    """Panels over one time axis: input rate, backlog, latency against its bound, instances with decisions, and what was
    spent of the error budget, where that is known."""
    start_s = observations[0].at_s if observations else 0.0
    unit = TimeUnit.of(observations[-1].at_s - start_s if observations else 0.0)
    axis = _Axis(start_s, unit)
    samples = list(samples_of(observations, operator))
    sizes = [
        (observation.at_s, observation.instances[operator])
        for observation in observations
        if operator in observation.instances
    ]
    metrics: list[tuple[str, str, Callable[[Sample], float | None]]] = [
        ("input rate", RATE, lambda sample: sample.input_rate_per_s),
        ("backlog", BACKLOG, lambda sample: sample.backlog),
        ("latency", LATENCY, lambda sample: sample.worst_latency_s),
    ]
    data = [
        axis.line(panel, name, colour, [(sample.at_s, value_of(sample)) for sample in samples])
        for panel, (name, colour, value_of) in enumerate(metrics, start=1)
    ]
    data.append(axis.steps("planned", PLANNED, [(at_s, size.planned) for at_s, size in sizes], dash="dot"))
    data.append(axis.steps("ready", READY, [(at_s, size.ready) for at_s, size in sizes]))
    data.extend(_markers(axis, [row_of(item) for item in items if is_decision_on(item, operator)]))
    budgets = budget_course(observations, objective.slo_of(operator), operator, _BUDGET_POINTS)
    # The size of a young budget is not known yet.
    known = [] if not budgets or budgets[-1][1].is_young else budgets
    spent = [(at_s, 100 * budget.spent if math.isfinite(budget.spent) else None) for at_s, budget in known]
    if spent:
        data.append(axis.line(_BUDGET, "budget spent", BUDGET, spent))
    panels = _PANELS if spent else _PANELS[:_INSTANCES]
    return {"data": data, "layout": _layout(axis, samples, sizes, objective, panels)}


def key_of(drawn: Mapping[str, JSON]) -> str:
    """Return what the marks in a figure mean; only of those that it has."""
    parts = []
    if any(shape["type"] == "rect" for shape in drawn["layout"]["shapes"]):
        parts.append("Shaded: the objective was violated.")
    marks = [trace for trace in drawn["data"] if trace["mode"] == "markers"]
    if marks:
        names = ", ".join(f"{_SIGNS[trace['marker']['symbol']]} {trace['name']}" for trace in marks)
        parts.append(f"{names}: point at one for its reason.")
    return " ".join(parts)


class _Axis:
    """Puts traces on the shared time axis."""

    def __init__(self, start_s: Instant, unit: TimeUnit) -> None:
        self.start_s = start_s
        self.unit = unit

    def at(self, at_s: Instant) -> float:
        return round((at_s - self.start_s) / self.unit.seconds, 6)

    def line(self, panel: int, name: str, colour: str, points: Sequence[tuple[Instant, float | None]]) -> JSON:
        thinned = peaks(points, MAX_POINTS)
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [self.at(at_s) for at_s, _ in thinned],
            "y": [value for _, value in thinned],
            "yaxis": _y(panel),
            "line": {"color": colour, "width": 1.75},
            "fill": "tozeroy",
            "hovertemplate": f"{name} %{{y:.4~g}}<extra></extra>",
            "showlegend": False,
        }

    def steps(self, name: str, colour: str, points: Sequence[tuple[Instant, int]], dash: str = "solid") -> JSON:
        """Only where the value changes: exact, and short however long the run."""
        ends = [points[0], *(after for before, after in pairwise(points) if before[1] != after[1])] if points else []
        if points and ends[-1] is not points[-1]:
            ends.append(points[-1])
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [self.at(at_s) for at_s, _ in ends],
            "y": [value for _, value in ends],
            "yaxis": _y(_INSTANCES),
            "line": {"color": colour, "width": 2, "shape": "hv", "dash": dash},
            "hovertemplate": f"{name} %{{y}}<extra></extra>",
        }


def peaks(points: Sequence[tuple[Instant, float | None]], most: int) -> list[tuple[Instant, float | None]]:
    """At most so many points; of each stretch of time the highest one stays, so that no spike is lost.

    >>> peaks([(0, 1.0), (1, 9.0), (2, None), (3, 2.0)], 2)
    [(1, 9.0), (3, 2.0)]
    """
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    stretches = (points[first : first + size] for first in range(0, len(points), size))
    return [max(stretch, key=lambda point: -1.0 if point[1] is None else point[1]) for stretch in stretches]


def samples_of(observations: Sequence[Observation], operator: str) -> Iterator[Sample]:
    """The readings, each once: an engine may report the newest one again."""
    last_s: Instant | None = None
    for observation in observations:
        sample = observation.samples.get(operator)
        if sample is not None and sample.at_s != last_s:
            last_s = sample.at_s
            yield sample


def _markers(axis: _Axis, rows: Sequence[Row]) -> Iterator[JSON]:
    for kind, (name, colour, symbol) in _MARKERS.items():
        found = [row for row in rows if row.kind is kind]
        if found:
            yield {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [axis.at(row.at_s) for row in found],
                "y": [row.size for row in found],
                "yaxis": _y(_INSTANCES),
                "marker": {"color": colour, "symbol": symbol, "size": 11, "line": {"width": 1.5, "color": colour}},
                "text": [_hover(row) for row in found],
                "hovertemplate": "%{text}<extra></extra>",
            }


def _hover(row: Row) -> str:
    lines = [line for text in (row.reason, *row.notes) for line in wrap(text, _WRAP)]
    return "<br>".join([f"<b>{escape(row.change)}</b>", *map(escape, lines)])


def _y(panel: int) -> str:
    return "y" if panel == 1 else f"y{panel}"


def _layout(
    axis: _Axis,
    samples: Sequence[Sample],
    sizes: Sequence[tuple[Instant, Instances]],
    objective: Objective,
    panels: Sequence[str],
) -> JSON:
    height = (1 - _GAP * (len(panels) - 1)) / len(panels)
    top_of_instances = 1 - (_INSTANCES - 1) * (height + _GAP)
    layout: dict[str, JSON] = {
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "margin": {"l": 56, "r": 16, "t": 28, "b": 44},
        "height": _HEIGHT * len(panels),
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": top_of_instances, "yanchor": "bottom"},
        "xaxis": {
            "title": {"text": f"{axis.unit.name} from the start", "font": {"size": 13}},
            "anchor": _y(len(panels)),
            "range": [0, axis.at(sizes[-1][0]) if sizes else 1],
        },
        "annotations": [],
        "shapes": [_band(axis, *span) for span in violations(samples, objective.slo)],
    }
    for number, title in enumerate(panels, start=1):
        top = 1 - (number - 1) * (height + _GAP)
        layout[f"yaxis{'' if number == 1 else number}"] = {
            "domain": [max(0.0, top - height), top],
            "rangemode": "tozero",
            "fixedrange": True,
            "nticks": 5,
        }
        layout["annotations"].append(
            {"text": f"<b>{title}</b>", "xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left",
             "yanchor": "bottom", "showarrow": False}
        )  # fmt: skip
    largest = max((max(size.planned, size.ready) for _, size in sizes), default=1)
    layout[f"yaxis{_INSTANCES}"] |= {"range": [0, largest + 1], "tickformat": "d"}
    if isinstance(objective.slo, LatencySlo):
        bound_s = objective.slo.bound_s
        line = {"color": BOUND, "width": 1.5, "dash": "dash"}
        layout["shapes"].append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "yref": _y(3),
                "y0": bound_s,
                "y1": bound_s,
                "line": line,
            }
        )
        layout["annotations"].append(
            {"text": f"objective {format_duration(bound_s)}", "xref": "paper", "x": 1, "xanchor": "right",
             "yref": _y(3), "y": bound_s, "yanchor": "bottom", "showarrow": False, "font": {"color": BOUND, "size": 11}}
        )  # fmt: skip
    return layout


def violations(samples: Sequence[Sample], slo: Slo) -> Iterator[tuple[Instant, Instant]]:
    """From and to, of each time in which the readings violate an objective."""
    began_s: Instant | None = None
    last_s: Instant | None = None
    for sample in samples:
        if slo.violated_by(sample):
            # A reading stands for the time since the one before it.
            began_s = (sample.at_s if last_s is None else last_s) if began_s is None else began_s
        elif began_s is not None and last_s is not None:
            yield began_s, last_s
            began_s = None
        last_s = sample.at_s
    if began_s is not None and last_s is not None:
        yield began_s, last_s


def _band(axis: _Axis, from_s: Instant, to_s: Instant) -> JSON:
    """A band behind all panels."""
    return {
        "type": "rect",
        "xref": "x",
        "x0": axis.at(from_s),
        "x1": axis.at(to_s),
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "fillcolor": BOUND,
        "opacity": 0.09,
        "line": {"width": 0},
        "layer": "below",
    }
