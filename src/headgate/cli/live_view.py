"""What a running job looks like in the terminal: load, lag, latency against the objective, executors, and why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headgate.cli.explain import SEVERITY_STYLES
from headgate.cli.sparklines import sparkline
from headgate.core.budget import Budget
from headgate.core.objective import Objective
from headgate.core.types import Decision, Event, Observation, Verdict
from headgate.core.units import format_duration, plain
from headgate.journal.budgets import money, pace_in_words
from headgate.runtime.summary import RunRecord

PLAIN_EVERY_S = 10.0
"""Where there is no terminal to redraw, a line is printed this often."""


@dataclass(frozen=True)
class Shown:
    """What is looked at."""

    title: str
    policy: str
    goal: Objective
    seconds: float | None
    """How long it takes; ``None`` where nobody knows."""
    when_stopped: str = "Ctrl-C stops and cleans up"


class LiveView:
    """Shows what it is told; the lines it keeps are the run so far."""

    def __init__(self, console: Console, shown: Shown) -> None:
        self._console = console
        self._shown = shown
        self._record = RunRecord(shown.goal)
        self._counts: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._stage = ""
        self._last_change: tuple[float, Verdict] | None = None
        self._last_event: Event | None = None
        self._newest: Verdict | None = None
        self._spent: list[float | None] = []
        """The share of the error budget that was spent, by tick."""
        self._printed_s = -PLAIN_EVERY_S
        self._began_s = time.monotonic()

    def stage(self, text: str) -> None:
        self._stage = text
        if not self._console.is_terminal:
            self._console.print(f"{format_duration(round(time.monotonic() - self._began_s)):>7}  {text}")

    def count(self, name: str, told: str, more: str) -> None:
        """Show what was counted beside what the loop sees: a line with a name, in place of the one that it had."""
        with self._lock:
            self._counts[name] = (told, more)

    def event(self, event: Event) -> None:
        """Take in what happened to the query itself."""
        with self._lock:
            self._last_event = event
            if not self._console.is_terminal:
                after = format_duration(round(time.monotonic() - self._began_s))
                self._console.print(f"{after:>7}  {event.kind}: {event.detail}", markup=False, soft_wrap=True)

    def tick(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in what a tick of the loop saw and decided; a watcher."""
        with self._lock:
            self._record(observation, decision)
            if observation is not None:
                self._spent.append(None if (budget := self._budget()) is None else budget.spent)
            verdict = None if decision is None else decision.verdicts.get(self._record.operator)
            if decision is None or verdict is None:
                return
            self._newest = verdict
            if verdict.change:
                self._last_change = (decision.at_s - self._record.start_s, verdict)
            if not self._console.is_terminal:
                self._print_line(bool(verdict.change), decision.at_s - self._record.start_s, verdict)

    def _print_line(self, changed: bool, at_s: float, verdict: Verdict) -> None:
        if not changed and at_s - self._printed_s < PLAIN_EVERY_S:
            return
        self._printed_s = at_s
        point = self._record.series()[-1]
        told = ", ".join(
            f"{name} {'?' if point[key] is None else plain(point[key])}{unit}"
            for name, key, unit in (
                ("rate", "input_rate", "/s"),
                ("lag", "backlog", ""),
                ("latency", "latency_s", " s"),
                ("executors", "ready", ""),
            )
        )
        if (budget := self._budget()) is not None:
            told = f"{told}, budget {plain(100 * budget.spent)} % spent"
        if (spending := self._record.standing().spending) is not None:
            told = f"{told}, cost {money(spending.spent)}"
        told = ", ".join([told, *(f"{name} {counted}" for name, (counted, _) in self._counts.items())])
        why = f"; {verdict.current} → {verdict.target}: {verdict.reason}" if changed else ""
        self._console.print(f"{f'+{at_s:.0f}s':>7}  {told}{why}", soft_wrap=True)

    def __rich__(self) -> RenderableType:
        with self._lock:
            return Panel(
                Group(self._gauges(), Text(), *self._words()),
                title=f"[bold]{self._shown.title}[/bold] · {self._shown.policy} · {self._shown.goal}",
                subtitle=self._subtitle(),
                padding=(1, 2),
            )

    def _subtitle(self) -> str:
        series = self._record.observations
        if not series or self._stage != "running":
            return self._stage
        elapsed_s = series[-1].at_s - series[0].at_s
        of = "" if self._shown.seconds is None else f" of {format_duration(self._shown.seconds)}"
        return f"{elapsed_s:.0f} s{of} · {self._shown.when_stopped}"

    def _gauges(self) -> Table:
        series = self._record.series()
        newest = series[-1] if series else {"input_rate": None, "backlog": None, "latency_s": None, "ready": 0}
        planned = newest.get("planned", 1)
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(style="dim", no_wrap=True, width=10)
        table.add_column(no_wrap=True, width=26)
        table.add_column(no_wrap=True, ratio=1)
        width = max(10, self._console.width - 50)
        executors = f"{newest['ready']} ready" + (f", {planned} planned" if planned != newest["ready"] else "")
        rows = (
            ("load", "input_rate", "blue", _told(newest["input_rate"], "records/s")),
            ("lag", "backlog", "yellow", _told(newest["backlog"], "records")),
            ("latency", "latency_s", self._latency_style(newest["latency_s"]), _told(newest["latency_s"], "s")),
            ("executors", "ready", "green", executors),
        )
        for name, key, style, told in rows:
            values = [point[key] for point in series]
            table.add_row(name, f"[bold {style}]{told}", f"[{style}]{sparkline(values, width)}")
        if (budget := self._budget()) is not None:
            style = "red" if budget.spent > 1 else "cyan"
            burn = "" if budget.burn_short is None else f", burn {plain(budget.burn_short)} ×"
            told = f"{plain(100 * budget.spent)} % spent{burn}"
            table.add_row("budget", f"[bold {style}]{told}", f"[{style}]{sparkline(self._spent, width)}")
        if (spending := self._record.standing().spending) is not None:
            table.add_row("cost", f"[bold]{money(spending.spent)}", pace_in_words(spending))
        for name, (told, more) in self._counts.items():
            table.add_row(name, f"[bold]{told}", f"[dim]{more}")
        return table

    def _budget(self) -> Budget | None:
        return self._record.standing().budgets.get(self._record.operator)

    def _latency_style(self, latency_s: float | None) -> str:
        bound_s = getattr(self._shown.goal.slo, "bound_s", None)
        return "red" if latency_s is not None and bound_s is not None and latency_s >= bound_s else "magenta"

    def _words(self) -> Iterator[Text]:
        if self._last_change is not None:
            at_s, verdict = self._last_change
            style = "bold green" if verdict.change > 0 else "bold yellow"
            change = (f"{verdict.current} → {verdict.target}", style)
            yield Text.assemble((f"{at_s:4.0f} s  ", "dim"), change, f"  {verdict.reason}")
        if self._last_event is not None:
            style = SEVERITY_STYLES[self._last_event.severity]
            yield Text.assemble(("query  ", "dim"), (self._last_event.kind, style), f"  {self._last_event.detail}")
        if self._newest is not None:
            stopped = [note.why for note in self._newest.notes if note.before != note.after]
            held = f" (held: {stopped[-1]})" if stopped and not self._newest.change else ""
            yield Text.assemble(("  now  ", "dim"), f"{self._newest.reason}{held}")


def _told(value: float | None, unit: str) -> str:
    return f"? {unit}" if value is None else f"{plain(value)} {unit}"


@contextmanager
def live_view(console: Console, shown: Shown) -> Iterator[LiveView]:
    """The view of a job, redrawn on a terminal and printed line by line elsewhere."""
    view = LiveView(console, shown)
    if not console.is_terminal:
        yield view
        return
    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view
