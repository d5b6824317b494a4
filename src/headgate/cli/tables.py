"""Tables for terminals of any width: whole words, numbers right-aligned, and what does not fit stands below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from headgate.core.types import JSON

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from headgate.render.tables import Column

GAP = 2
LONGEST_TEXT = 40
"""Longer text is broken into lines."""
LEAST_TEXT = 30
"""With less room than this next to a name, its description is printed below it."""
INDENT = 2


def print_table(rows: Sequence[Mapping[str, JSON]], console: Console, notes: Iterable[str] = ()) -> None:
    """Print rows as a table, or as several below each other that begin with the same columns; then notes on them."""
    from headgate.render.tables import columns_of

    for index, block in enumerate(blocks(columns_of(rows), console.width)):
        if index:
            console.print()
        _print(block, console)
    print_notes(notes, console)


def print_notes(notes: Iterable[str], console: Console) -> None:
    for note in notes:
        console.print(Text(f"\n{note}", style="dim"))


def grid(rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    """Return rows side by side, without headings."""
    from rich.table import Table

    table = Table.grid(padding=(0, GAP, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def print_described(described: Sequence[tuple[str, str]], console: Console) -> None:
    """Print names with their descriptions, which stand below them where the terminal is narrow."""
    from rich.padding import Padding
    from rich.table import Table

    widest = max((len(name) for name, _ in described), default=0)
    if console.width - widest - GAP < LEAST_TEXT:
        for name, text in described:
            console.print(Text(name, style="bold cyan"))
            console.print(Padding(Text(text), (0, 0, 0, INDENT)))
        return
    table = Table(box=None, padding=(0, GAP, 0, 0), show_header=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for name, text in described:
        table.add_row(Text(name), Text(text))
    console.print(table)


def blocks(columns: Sequence[Column], width: int) -> list[list[tuple[Column, int]]]:
    """Return columns with their widths, in as many blocks as the width needs; each begins with the key columns."""
    keys = _keys(columns)
    room = width + GAP - sum(_wanted(column) + GAP for column in keys)  # None follows the last column.
    found: list[list[tuple[Column, int]]] = []
    block: list[Column] = []
    left = room
    for column in columns[len(keys) :]:
        if block and column.least_width + GAP > left:
            found.append(_widened([*keys, *block], width))
            block, left = [], room
        block.append(column)
        left -= column.least_width + GAP
    return [*found, _widened([*keys, *block], width)] if columns else []


def _keys(columns: Sequence[Column]) -> Sequence[Column]:
    """Return the fewest leading columns that identify each row."""
    for count in range(1, len(columns)):
        keys = list(zip(*(column.cells for column in columns[:count]), strict=True))
        if len(set(keys)) == len(keys):
            return columns[:count] if count <= 3 else columns[:1]
    return columns[:1]


def _wanted(column: Column) -> int:
    return max(column.least_width, min(column.full_width, LONGEST_TEXT))


def _widened(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return each column with its least width, widened from the left while there is room."""
    widths = [column.least_width for column in columns]
    room = width - sum(widths) - GAP * (len(columns) - 1)
    for index, column in enumerate(columns):
        more = min(max(0, _wanted(column) - widths[index]), max(0, room))
        widths[index] += more
        room -= more
    return list(zip(columns, widths, strict=True))


def _print(block: Sequence[tuple[Column, int]], console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="dim", padding=(0, GAP, 0, 0), pad_edge=False)
    for column, width in block:
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(Text(column.heading), justify=justify, width=width)
    for row in zip(*(column.cells for column, _ in block), strict=True):
        table.add_row(*(Text(text) for text in row))
    console.print(table)
