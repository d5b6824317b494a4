"""Tables of results: headings in words with units, numbers distinguished from text, no empty columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from headgate.core.types import JSON
from headgate.core.units import plain

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
