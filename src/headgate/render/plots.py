"""One plot, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from headgate.core.types import JSON


@dataclass(frozen=True)
class Plot:
    """One plot, as the data and layout that plotly's script takes."""

    title: str
    data: Sequence[Mapping[str, JSON]]
    layout: Mapping[str, JSON] = field(default_factory=dict)
    key: str = ""
    """What its lines, points, boxes and bars are, where their names do not say so."""


ALL_PCT = 100.0


def line(name: str, x: Sequence[float], y: Sequence[float | None], **options: JSON) -> dict[str, JSON]:
    """Return a line as plotly takes it."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), **options}


def axes(x: str, y: str) -> dict[str, JSON]:
    """Return the layout of a plot that has only titles at its axes."""
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}


def error_bars(
    values: Sequence[float | None], half_widths: Sequence[float | None], most: float | None = None
) -> dict[str, JSON]:
    """Bars about values, as plotly takes them; ``most`` is the highest value that there can be.

    >>> error_bars([99.0, 2.0], [3.0, 5.0], ALL_PCT)
    {'type': 'data', 'symmetric': False, 'array': [1.0, 5.0], 'arrayminus': [3.0, 2.0]}
    """
    pairs = [(value or 0.0, width or 0.0) for value, width in zip(values, half_widths, strict=True)]
    above = [width if most is None else max(0.0, min(width, most - value)) for value, width in pairs]
    below = [max(0.0, min(width, value)) for value, width in pairs]
    return {"type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below)}


LOGARITHMIC = 100.0
"""If the largest value is this many times the smallest, the axis is logarithmic."""
DASHES = ("solid", "dot", "dashdot", "longdash")
"""Lines differ without colour, too."""


@dataclass(frozen=True, slots=True)
class Candlestick:
    min: float
    p10: float
    mean: float
    p90: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Candlestick:
        """
        >>> Candlestick.of(range(11))
        Candlestick(min=0.0, p10=1.0, mean=5.0, p90=9.0, max=10.0)
        """
        p10, p90 = np.percentile(values, [10, 90])
        return cls(float(min(values)), float(p10), float(np.mean(values)), float(p90), float(max(values)))

    @classmethod
    def mean_of(cls, sticks: Sequence[Candlestick]) -> Candlestick:
        """Several runs as one: the mean of each figure."""
        columns = zip(*(asdict(stick).values() for stick in sticks), strict=True)
        return cls(*(float(np.mean(column)) for column in columns))

    def row(self, name: str, unit: str = "") -> dict[str, JSON]:
        """The figures as cells of a table, to three decimals."""
        return {f"{name}_{key}{unit}": round(value, 3) for key, value in asdict(self).items()}


def candlestick_plot(title: str, axis: str, sticks: Mapping[str, Candlestick], bound: float | None = None) -> Plot:
    """One box per name: its body from the 10th to the 90th percentile, its line the mean, its whiskers the range."""
    figures = list(sticks.values())
    box = {
        "type": "box",
        "x": [name.replace(" ", "<br>") for name in sticks],  # Short, so that the boxes keep their height.
        "lowerfence": [stick.min for stick in figures],
        "q1": [stick.p10 for stick in figures],
        "median": [stick.mean for stick in figures],
        "q3": [stick.p90 for stick in figures],
        "upperfence": [stick.max for stick in figures],
        "line": {"color": "latency"},
        "showlegend": False,
    }
    key = "Boxes reach from the 10th to the 90th percentile, the line in them is the mean, whiskers the whole range."
    layout = _layout(axis, {"title": {"text": ""}}, bound)
    least = min(stick.min for stick in figures)
    if least > 0 and max(stick.max for stick in figures) > LOGARITHMIC * least:
        layout["yaxis"] = {"title": {"text": axis}, "type": "log"}
        key += " The axis is logarithmic."
    return Plot(title, [box], layout, key + _bound_key(bound))


def line_plot(
    title: str, axis: str, lines: Mapping[str, Sequence[tuple[float, float | None]]], bound: float | None = None
) -> Plot:
    """One line per name over the minutes of a run."""
    data = [
        line(
            name,
            [round(minute, 3) for minute, _ in points],
            [value for _, value in points],
            line={"width": 1.5, "dash": DASHES[place % len(DASHES)]},
        )
        for place, (name, points) in enumerate(lines.items())
    ]
    return Plot(title, data, _layout(axis, {"title": {"text": "minutes"}}, bound), _bound_key(bound).strip())


def _bound_key(bound: float | None) -> str:
    return "" if bound is None else " Dashed: the bound of the objective."


def _layout(axis: str, x_axis: Mapping[str, JSON], bound: float | None) -> dict[str, JSON]:
    shapes: list[JSON] = []
    if bound is not None:
        style = {"color": "bound", "width": 1.5, "dash": "dash"}
        shapes = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": bound, "y1": bound, "line": style}]
    return {
        "height": 380,
        "margin": {"l": 60, "r": 20, "t": 20, "b": 60},
        "xaxis": dict(x_axis),
        "yaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "shapes": shapes,
        "legend": {"orientation": "h", "y": 1.12},
    }
