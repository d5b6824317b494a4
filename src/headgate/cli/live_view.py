"""What runs, shown in the terminal: a panel of sections that is redrawn, or lines where there is no terminal.

A view extends :class:`LiveView`: it collects what it is given, and returns sections to draw. ``shown`` displays it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headgate.core.objective import Objective
from headgate.core.types import Event, Severity, Verdict
from headgate.core.units import format_duration, plain

LINE_EVERY_S = 10.0
"""Without a terminal, a line is printed this often."""
REDRAWN_PER_S = 4.0
CHANGES_SHOWN = 6
MOST_POINTS = 200
"""Newest values of which a curve is drawn."""
SEVERITY_STYLES = {Severity.INFO: "blue", Severity.WARNING: "bold yellow", Severity.ERROR: "bold red"}
KIND_STYLES = {
    "out": "bold green",
    "in": "bold yellow",
    "stopped": "magenta",
    "capped": "bold red",
    "advice": "bold cyan",
    "hold": "dim",
    "event": SEVERITY_STYLES[Severity.INFO],
    "warning": SEVERITY_STYLES[Severity.WARNING],
    "failed": SEVERITY_STYLES[Severity.ERROR],
}
BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN_BLOCK = "·"


@dataclass(frozen=True)
class RunHeading:
    """What is shown of a run besides its readings."""

    title: str
    policy: str
    goal: Objective
    seconds: float | None
    """How long it runs; ``None`` where it has no end."""
    when_stopped: str = "Ctrl-C stops and cleans up"


class LiveView:
    """Base of all views; thread-safe for its subclasses by ``self._lock``."""

    refresh_per_s = REDRAWN_PER_S

    def __init__(self, console: Console) -> None:
        self.console = console
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self._stage = ""
        self._line_due_s = 0.0

    def title(self) -> str:
        """Return the panel's title, in Rich's markup."""
        raise NotImplementedError

    def subtitle(self) -> str:
        return self._stage

    def sections(self) -> Iterable[RenderableType]:
        """Return what is drawn, from top to bottom."""
        raise NotImplementedError

    def stage(self, text: str) -> None:
        """Show what is being done."""
        with self._lock:
            self._stage = text
        self._print(text)

    def __rich__(self) -> RenderableType:
        with self._lock:
            return Panel(Group(*self.sections()), title=self.title(), subtitle=self.subtitle(), padding=(1, 2))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _elapsed(self) -> str:
        return format_duration(round(self.elapsed_s))

    def _print(self, text: str, since: str | None = None) -> None:
        """Print a line with the time since the start, where there is no terminal to redraw."""
        if not self.console.is_terminal:
            self.console.print(f"{since or self._elapsed():>7}  {text}", markup=False, soft_wrap=True)

    def _is_line_due(self, now_s: float) -> bool:
        """Return whether it is time for another line, and count it as printed."""
        if now_s < self._line_due_s:
            return False
        self._line_due_s = now_s + LINE_EVERY_S
        return True


ViewT = TypeVar("ViewT", bound=LiveView)


@contextmanager
def shown(view: ViewT) -> Iterator[ViewT]:
    """Show a view while the block runs: redrawn on a terminal, as lines elsewhere."""
    if not view.console.is_terminal:
        yield view
        return
    with Live(view, console=view.console, refresh_per_second=view.refresh_per_s, transient=True):
        yield view


# ------------------------------------------------------------------------------------------------------------- sections


def gauges(rows: Iterable[tuple[str, str, str]], name_width: int, value_width: int) -> Table:
    """Return a table of names, values and curves or remarks."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(style="dim", no_wrap=True, width=name_width)
    table.add_column(no_wrap=True, width=value_width)
    table.add_column(no_wrap=True, ratio=1)
    for row in rows:
        table.add_row(*row)
    return table


def change_lines(changes: Iterable[tuple[float, Verdict, str, str]]) -> Iterator[Text]:
    """Yield a line for each change: when, which verdict, the change in words, and why."""
    for at_s, verdict, change, why in changes:
        style = KIND_STYLES["out" if verdict.change > 0 else "in"]
        yield Text.assemble((f"{at_s:4.0f} s  ", "dim"), (change, style), f"  {why}")


def event_line(subject: str, event: Event) -> Text:
    return Text.assemble((subject, "dim"), (event.kind, SEVERITY_STYLES[event.severity]), f"  {event.detail}")


def known(value: float | None) -> str:
    """Return a number in words, or a question mark."""
    return "?" if value is None else plain(value)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Return a line of blocks, the tallest for the largest value and the lowest for 0.

    Where there are more values than columns, each column shows its largest value.

    >>> sparkline([0, 1, 2, None, 8], 5)
    '▁▂▃·█'
    """
    count = min(width, len(values))
    edges = [len(values) * column // count for column in range(count + 1)] if count else []
    columns = [[value for value in values[first:end] if value is not None] for first, end in pairwise(edges)]
    tops = [max(column) if column else None for column in columns]
    largest = max((value for value in tops if value is not None), default=0.0)
    return "".join(UNKNOWN_BLOCK if value is None else _block(value, largest) for value in tops)


def _block(value: float, largest: float) -> str:
    if largest <= 0:
        return BLOCKS[0]
    return BLOCKS[min(len(BLOCKS) - 1, int(len(BLOCKS) * max(0.0, value) / largest))]
