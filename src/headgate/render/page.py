"""Writes files whole or not at all, and every report: one HTML file that needs no network."""

from __future__ import annotations

import gzip
import math
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from headgate._version import __version__
from headgate.core.errors import InputError, OutputError, cause_of
from headgate.core.extras import needing
from headgate.core.types import JSON
from headgate.core.units import plain
from headgate.journal.codec import to_json

OWN_SCRIPT = "HEADGATE_PLOTLY"
"""The environment variable that names another bundle of plotly's script."""


def report_packages() -> tuple[str, ...]:
    """Return the packages that a report needs."""
    return () if os.environ.get(OWN_SCRIPT) else ("plotly",)


def require_plotly() -> str:
    """Return plotly's script as a page carries it, packed; raise an error that says how to install it."""
    if path := os.environ.get(OWN_SCRIPT):
        try:
            return _packed(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{OWN_SCRIPT}={path} cannot be read: {cause_of(error)}.") from error
    with needing("a report"):
        from plotly.offline import get_plotlyjs
    return _packed(get_plotlyjs())


@cache
def _packed(script: str) -> str:
    # Without the time of packing, so that the same script makes the same page.
    return b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def write_page(
    path: Path,
    *,
    title: str,
    head: str,
    sections: Sequence[str],
    figures: Sequence[Mapping[str, JSON]],
    cards: str = "",
) -> Path:
    """Write a page and return its path; an existing file is replaced.

    Args:
        path: The file to write.
        title: The heading, as text.
        head: The lines under it, as HTML.
        sections: The parts after the cards, as HTML; the figure with index i is drawn into the element ``figure-i``.
        figures: The plots, as the data and layout that plotly's script takes.
        cards: The most important numbers, as HTML.
    """
    page = Template(files("headgate.render").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        head=head,
        cards=cards,
        sections="\n".join(section for section in sections if section),
        footer=f"Made by Headgate {escape(__version__)}.",
        plotly=require_plotly(),
        # Nothing is unescaped inside a script element, so the data must not contain its end tag.
        figures=to_json(_shortened(list(figures))).replace("<", "\\u003c"),
    )
    write_file(path, page)
    return path


def _shortened(value: JSON) -> JSON:
    """Return data with numbers as fine as a plot shows them, six digits or thousandths, which halves a large report."""
    if isinstance(value, float):
        return round(value, 3) if abs(value) >= 1000 or not math.isfinite(value) else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shortened(part) for part in value]
    return value


ODD = "replace"
"""How file names that are not valid UTF-8 are written."""


def write_file(path: Path, text: str) -> None:
    """Write all of the text or nothing: readers never see half a file, and a failure keeps the old one."""
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors=ODD)  # A device or a pipe: not to be replaced by a file.
            return
        part.write_text(text, encoding="utf-8", errors=ODD)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {cause_of(error)}.") from error


_UNITS = {"per_s": " per s", "pct": " %", "percent": " %", "s": ", s", "gb": ", GB", "h": ", h"}
_UNIT = "ms|s|m|min|h|d|GB|MB|kB|×|x|points|records/s|records|batch|batches|start-up|start-ups"
_NUMBER = re.compile(rf"[-+–−±<>≤≥×*→ \d.,%/]*(e[-+]?\d+)?( to [-\d.,]+)?( ?({_UNIT}))*")
"""A number as written in a cell: with a unit, as an interval, or as a change."""
_DEVIATION = "_std"
_WHOLE = {"avg": "average", "sla": "SLA", "qos": "QoS"}
"""The written form of words that names abbreviate."""
UNKNOWN = ("", "–", "unknown")


@dataclass(frozen=True, slots=True)
class Column:
    heading: str
    cells: Sequence[str]
    is_number: bool

    @property
    def least_width(self) -> int:
        """The longest word of the heading, and of the cells; a number stays in one piece."""
        words = [*self.heading.split(), *(self.cells if self.is_number else " ".join(self.cells).split())]
        return max(map(len, words), default=1)

    @property
    def full_width(self) -> int:
        return max(self.least_width, len(self.heading), *map(len, self.cells))


def columns_of(rows: Sequence[Mapping[str, JSON]]) -> list[Column]:
    """Return the columns of a table that are not empty.

    >>> rows = [{"policy": "hpa", "mean_instances": 2.5, "note": None}]
    >>> [(column.heading, column.is_number) for column in columns_of(rows)]
    [('policy', False), ('mean instances', True)]
    >>> [(column.heading, list(column.cells)) for column in columns_of([{"off_pct": {"avg_cost": -2.0, "hours": 3}}])]
    [('off %: average cost', ['-2']), ('off %: hours', ['3'])]
    """
    found = []
    for name, values in _unfolded(rows):
        cells = [cell(value) for value in values]
        if any(cells):
            known = [text for text in cells if text not in UNKNOWN]
            is_number = bool(known) and all(_NUMBER.fullmatch(text) for text in known)
            found.append(Column(name, cells, is_number))
    return found


def html_table(rows: Sequence[Mapping[str, JSON]]) -> str:
    """Return a table as HTML, numbers to the right."""
    columns = columns_of(rows)
    kinds = [' class="number"' if column.is_number else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.heading)}</th>" for kind, column in zip(kinds, columns, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(kinds, row, strict=True)) + "</tr>"
        for row in zip(*(column.cells for column in columns), strict=True)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _unfolded(rows: Sequence[Mapping[str, JSON]]) -> Iterator[tuple[str, list[JSON]]]:
    """Yield headings with their values; a mapping of the same numbers in every row becomes a column for each number."""
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        inner = _same_names(values)
        if inner:
            for part in inner:
                yield f"{heading(name)}: {heading(part)}", [None if value is None else value[part] for value in values]
        else:
            yield heading(name), values


def _same_names(values: Sequence[JSON]) -> list[str]:
    known = [value for value in values if value is not None]
    if not known or not all(isinstance(value, Mapping) for value in known):
        return []
    names = list(known[0])
    numbers = all(isinstance(part, int | float | None) for value in known for part in value.values())
    return names if numbers and all(list(value) == names for value in known) else []


def heading(name: str) -> str:
    """Return the name of a column in whole words, with its unit.

    >>> [heading(name) for name in ("latency_p95_s", "violated_pct", "records_per_s", "late %", "worst_backlog_gb")]
    ['latency p95, s', 'violated %', 'records per s', 'late %', 'worst backlog, GB']
    >>> heading("qos_pct_std")
    'QoS %, deviation'
    >>> heading("avg_cost")
    'average cost'
    """
    if name.endswith(_DEVIATION):
        return f"{heading(name.removesuffix(_DEVIATION))}, deviation"
    for ending, unit in _UNITS.items():
        if name.endswith(f"_{ending}"):
            return _in_words(name.removesuffix(f"_{ending}")) + unit
    return _in_words(name)


def _in_words(name: str) -> str:
    return " ".join(_WHOLE.get(word, word) for word in name.replace("_", " ").split(" "))


def cell(value: JSON) -> str:
    """Return a value as text: numbers are shortened, nested values listed.

    >>> [cell(value) for value in (True, 0.123456, ["hpa", 2], {"late_pct": 1.0}, 86_400, None)]
    ['yes', '0.123', 'hpa, 2', 'late % 1', '86,400', '']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{heading(name)} {cell(part)}" for name, part in value.items())
    if isinstance(value, int | float):
        return number(value)
    return "" if value is None else str(value)


def number(value: float) -> str:
    """Return a number with three significant digits, or whole and with separators from a thousand on.

    >>> number(1234567.8), number(88.14), number(3)
    ('1,234,568', '88.1', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else str(value) if isinstance(value, int) else plain(value)


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
        import numpy as np

        p10, p90 = np.percentile(values, [10, 90])
        return cls(float(min(values)), float(p10), float(np.mean(values)), float(p90), float(max(values)))

    @classmethod
    def mean_of(cls, sticks: Sequence[Candlestick]) -> Candlestick:
        """Several runs as one: the mean of each figure."""
        import numpy as np

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
