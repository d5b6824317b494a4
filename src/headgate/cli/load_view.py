"""The live view of a load: records due, sent and acknowledged, and how late they were sent."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType

from headgate.cli.live_view import LiveView, gauges, sparkline
from headgate.core.units import format_duration
from headgate.workloads.replay import ReplayProgress, SendLateness


class LoadView(LiveView):
    """Shows the load so far."""

    refresh_per_s = 2.0
    """Drawing takes time from sending, some milliseconds at once."""

    def __init__(self, console: Console, title: str, *, total: int, lasting_s: float | None) -> None:
        super().__init__(console)
        self._title = title
        self._total = total
        self._lasting_s = lasting_s
        self._newest: ReplayProgress | None = None
        self._due_per_s: list[float | None] = []
        self._sent_per_s: list[float | None] = []
        self._is_line_due(0.0)

    def standing(self, standing: ReplayProgress) -> None:
        """Take in the state of the load."""
        before = self._newest
        passed_s = standing.elapsed_s - (before.elapsed_s if before else 0.0)
        if passed_s <= 0:
            return
        self._due_per_s.append((standing.due - (before.due if before else 0)) / passed_s)
        self._sent_per_s.append((standing.sent - (before.sent if before else 0)) / passed_s)
        self._newest = standing
        if self._is_line_due(standing.elapsed_s):
            self._print(_in_words(standing), since=f"+{standing.elapsed_s:.0f}s")

    def title(self) -> str:
        return self._title

    def sections(self) -> Iterator[RenderableType]:
        yield gauges(() if self._newest is None else self._rows(self._newest), 14, 24)

    def _rows(self, standing: ReplayProgress) -> Iterator[tuple[str, str, str]]:
        width = max(10, self.console.width - 50)
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

    def subtitle(self) -> str:
        if self._newest is None:
            return "starting"
        elapsed = format_duration(round(self._newest.elapsed_s))
        of = "" if self._lasting_s is None else f" of {format_duration(self._lasting_s)}"
        return f"{elapsed}{of} · Ctrl-C stops and prints what was sent"


def _in_words(standing: ReplayProgress) -> str:
    answers = standing.answers
    text = f"sent {standing.sent:,} of {standing.due:,} due, {answers.acknowledged:,} acknowledged"
    if answers.failed:
        text = f"{text}, {answers.failed:,} failed"
    return text if standing.lateness is None else f"{text}, late by {lateness_in_words(standing.lateness)}"


def lateness_in_words(lateness: SendLateness) -> str:
    """
    >>> lateness_in_words(SendLateness())
    'p50 0 ms, p99 0 ms, max 0 ms'
    """
    parts = (("p50", lateness.percentile_s(50)), ("p99", lateness.percentile_s(99)), ("max", lateness.max_s))
    return ", ".join(f"{name} {1000 * late_s:.3g} ms" for name, late_s in parts)
