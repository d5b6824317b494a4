"""What a load looks like in the terminal: what is due and what was sent, what became of it, and how late it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from headgate.cli.sparklines import sparkline
from headgate.core.units import format_duration
from headgate.workloads.replay import Lateness, Standing

PLAIN_EVERY_S = 10.0
"""Where there is no terminal to redraw, a line is printed this often."""
REDRAWN_PER_S = 2.0
"""Drawing takes time from sending, some milliseconds at once."""


class LoadView:
    """Shows what it is told; its lines are the load so far."""

    def __init__(self, console: Console, title: str, *, total: int, lasting_s: float | None) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._lasting_s = lasting_s
        self._newest: Standing | None = None
        self._due_per_s: list[float | None] = []
        self._sent_per_s: list[float | None] = []
        self._printed_s = 0.0

    def tell(self, standing: Standing) -> None:
        """Take in how the load stands."""
        before = self._newest
        passed_s = standing.elapsed_s - (before.elapsed_s if before else 0.0)
        if passed_s <= 0:
            return
        self._due_per_s.append((standing.due - (before.due if before else 0)) / passed_s)
        self._sent_per_s.append((standing.sent - (before.sent if before else 0)) / passed_s)
        self._newest = standing
        if not self._console.is_terminal and standing.elapsed_s - self._printed_s >= PLAIN_EVERY_S:
            self._printed_s = standing.elapsed_s
            self._console.print(f"{f'+{standing.elapsed_s:.0f}s':>7}  {_in_words(standing)}", soft_wrap=True)

    def __rich__(self) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(style="dim", no_wrap=True, width=14)
        table.add_column(no_wrap=True, width=24)
        table.add_column(no_wrap=True, ratio=1)
        if self._newest is not None:
            for row in self._rows(self._newest):
                table.add_row(*row)
        return Panel(table, title=self._title, subtitle=self._subtitle(), padding=(1, 2))

    def _rows(self, standing: Standing) -> Iterator[tuple[str, str, str]]:
        width = max(10, self._console.width - 50)
        answers = standing.answers
        if standing.lateness is not None:
            due_per_s = self._due_per_s[-1] or 0.0
            yield "due", f"[bold blue]{due_per_s:,.0f} records/s", f"[blue]{sparkline(self._due_per_s, width)}"
        sent_per_s = self._sent_per_s[-1] or 0.0
        yield "sent", f"[bold green]{sent_per_s:,.0f} records/s", f"[green]{sparkline(self._sent_per_s, width)}"
        yield "", f"{standing.sent:,} of {self._total:,}", f"{100 * standing.sent / max(1, self._total):.0f} %"
        yield "acknowledged", f"{answers.acknowledged:,}", f"{standing.unanswered:,} not answered yet"
        if answers.failed:
            yield "failed", f"[bold red]{answers.failed:,}", f"[red]{', '.join(answers.reasons)}"
        if standing.lateness is not None:
            median, rest = lateness_in_words(standing.lateness).split(", ", 1)
            yield "late", f"[bold magenta]{median}", f"[magenta]{rest}"

    def _subtitle(self) -> str:
        if self._newest is None:
            return "starting"
        elapsed = format_duration(round(self._newest.elapsed_s))
        of = "" if self._lasting_s is None else f" of {format_duration(self._lasting_s)}"
        return f"{elapsed}{of} · Ctrl-C stops and tells what was sent"


def _in_words(standing: Standing) -> str:
    answers = standing.answers
    told = f"sent {standing.sent:,} of {standing.due:,} due, {answers.acknowledged:,} acknowledged"
    if answers.failed:
        told = f"{told}, {answers.failed:,} failed"
    return told if standing.lateness is None else f"{told}, late by {lateness_in_words(standing.lateness)}"


def lateness_in_words(lateness: Lateness) -> str:
    """
    >>> lateness_in_words(Lateness())
    'p50 0 ms, p99 0 ms, max 0 ms'
    """
    parts = (("p50", lateness.percentile_s(50)), ("p99", lateness.percentile_s(99)), ("max", lateness.max_s))
    return ", ".join(f"{name} {1000 * late_s:.3g} ms" for name, late_s in parts)


@contextmanager
def load_view(console: Console, title: str, *, total: int, lasting_s: float | None) -> Iterator[LoadView]:
    """The view of a load, redrawn on a terminal and printed line by line elsewhere."""
    view = LoadView(console, title, total=total, lasting_s=lasting_s)
    if not console.is_terminal:
        yield view
        return
    with Live(view, console=console, refresh_per_second=REDRAWN_PER_S, transient=True):
        yield view
