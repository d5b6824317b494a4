"""What a running job of several operators looks like in the terminal: a row for each, latency from end to end, and why.

What is seen and decided is also kept, for what is said at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headgate.cli.explain import SEVERITY_STYLES
from headgate.cli.live_view import PLAIN_EVERY_S, Shown
from headgate.cli.sparklines import sparkline
from headgate.core.slo import LatencySlo
from headgate.core.types import JSON, Decision, Event, Observation, Role, Verdict
from headgate.core.units import format_duration, plain
from headgate.runtime.summary import RunRecord

CHANGES_SHOWN = 6
KEPT = 200
MOST_OBSERVATIONS = 20_000
"""More than these are thinned out: somebody may look at a job for weeks."""


class OperatorsView:
    """Shows what it is told; ``end_to_end_s`` gives how long records take through all operators, as of now."""

    def __init__(
        self, console: Console, shown: Shown, operators: tuple[str, ...], end_to_end_s: Callable[[], float | None]
    ) -> None:
        self._console = console
        self._shown = shown
        self._end_to_end_s = end_to_end_s
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self.records = {name: RunRecord(shown.goal, name, most=MOST_OBSERVATIONS) for name in operators}
        self._latencies_s: list[float | None] = []
        self._changes: list[tuple[float, Verdict, str]] = []
        """When, which, and what is said of it."""
        self._rescales = self._recommended = 0
        self._newest: Verdict | None = None
        self._last_event: Event | None = None
        self._printed_s = -PLAIN_EVERY_S

    def event(self, event: Event) -> None:
        """Take in what happened to the loop, or to the job."""
        with self._lock:
            last, self._last_event = self._last_event, event
        is_told = last is not None and (last.kind, last.detail) == (event.kind, event.detail)
        if not self._console.is_terminal and not is_told:
            self._console.print(f"{self._elapsed():>7}  {event.kind}: {event.detail}", markup=False, soft_wrap=True)

    def tick(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in what a cycle saw and decided; a watcher."""
        with self._lock:
            for record in self.records.values():
                record(observation, decision)
            if observation is not None:
                self._latencies_s = [*self._latencies_s, self._end_to_end_s()][-KEPT:]
            changes = [] if decision is None else [one for one in decision.verdicts.values() if one.change]
            at_s = time.monotonic() - self._began_s
            is_made = decision is not None and decision.role is Role.ACTING
            told = [(at_s, verdict, _change(verdict, is_made=is_made)) for verdict in changes]
            self._changes = [*self._changes, *told][-KEPT:]
            self._rescales += bool(changes) and is_made
            self._recommended += bool(changes) and not is_made
            if decision is not None and decision.verdicts:
                held = [one for one in decision.verdicts.values() if one.proposed != one.target]
                self._newest = next(iter([*changes, *held, *decision.verdicts.values()]))
        if not self._console.is_terminal:
            self._print_lines([f"{change}: {_why(verdict)}" for _, verdict, change in told])

    def to_json(self) -> dict[str, JSON]:
        """What the run came to, operator by operator."""
        return {
            "version": 1,
            "rescales": self._rescales,
            "operators": {name: one.summary().to_json() for name, one in self.records.items() if one.observations},
        }

    def _elapsed(self) -> str:
        return format_duration(round(time.monotonic() - self._began_s))

    def _print_lines(self, changes: list[str]) -> None:
        for told in changes:
            self._console.print(f"{self._elapsed():>7}  {told}", markup=False, soft_wrap=True)
        now_s = time.monotonic() - self._began_s
        if now_s - self._printed_s < PLAIN_EVERY_S:
            return
        self._printed_s = now_s
        rows = "; ".join(f"{name} {' '.join(self._cells(name))}" for name in self.records)
        self._console.print(f"{self._elapsed():>7}  {rows}; {self._end_in_words()}", markup=False, soft_wrap=True)

    def _cells(self, name: str) -> tuple[str, str, str, str]:
        """Instances, load, lag and latency of an operator."""
        record = self.records[name]
        series = record.series()[-1:] if record.observations else []
        if not series:
            return "?", "?/s", "lag ?", "? s"
        newest = series[0]
        ready, planned = newest["ready"], newest["planned"]
        return (
            f"{ready}" if ready == planned else f"{ready}→{planned}",
            f"{_told(newest['input_rate'])}/s",
            f"lag {_told(newest['backlog'])}",
            f"{_told(newest['latency_s'])} s",
        )

    def _end_in_words(self) -> str:
        return f"end to end {_told(self._latencies_s[-1] if self._latencies_s else None)} s"

    # --------------------------------------------------------------------------------------------------- on a terminal

    def __rich__(self) -> RenderableType:
        with self._lock:
            return Panel(
                Group(self._table(), Text(), self._end_line(), Text(), *self._words()),
                title=f"[bold]{self._shown.title}[/bold] · {self._shown.policy} · {self._shown.goal.slo}",
                subtitle=f"{self._elapsed()} · {self._shown.when_stopped}",
                padding=(1, 2),
            )

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        for heading in ("operator", "instances", "load", "lag", "latency"):
            table.add_column(heading, no_wrap=True)
        table.add_column("size so far", no_wrap=True, ratio=1)
        width = max(10, self._console.width - 80)
        for name, record in self.records.items():
            sizes = [one.instances[name].ready for one in record.observations[-KEPT:] if name in one.instances]
            table.add_row(Text(name, "bold cyan"), *self._cells(name), f"[green]{sparkline(sizes, width)}")
        return table

    def _end_line(self) -> Text:
        slo, newest_s = self._shown.goal.slo, self._latencies_s[-1] if self._latencies_s else None
        is_late = isinstance(slo, LatencySlo) and newest_s is not None and newest_s > slo.bound_s
        curve = sparkline(self._latencies_s, max(10, self._console.width - 60))
        return Text.assemble((f"{self._end_in_words()}  ", "bold red" if is_late else "bold magenta"), curve)

    def _words(self) -> Iterator[Text]:
        for at_s, verdict, change in self._changes[-CHANGES_SHOWN:]:
            style = "bold green" if verdict.change > 0 else "bold yellow"
            yield Text.assemble((f"{at_s:4.0f} s  ", "dim"), (change, style), f"  {_why(verdict)}")
        if self._last_event is not None:
            style = SEVERITY_STYLES[self._last_event.severity]
            yield Text.assemble(("  job  ", "dim"), (self._last_event.kind, style), f"  {self._last_event.detail}")
        if self._newest is not None:
            yield Text.assemble(("  now  ", "dim"), f"{self._newest.operator}: {self._newest.reason}")

    def print_result(self) -> None:
        """What the run came to."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("operator", "most", "mean", "changes", "latency p95", "largest lag"):
            table.add_column(heading, justify="left" if heading == "operator" else "right")
        for name, record in self.records.items():
            if not record.observations:
                continue
            one = record.summary()
            most = max(seen.instances[name].ready for seen in record.observations if name in seen.instances)
            table.add_row(
                Text(name),
                str(most),
                f"{one.mean_instances:.2f}",
                str(one.rescales),
                f"{_told(one.latency_p95_s)} s",
                _told(one.max_backlog),
            )
        self._console.print()
        self._console.print(table)
        only = f"; {self._recommended} recommended" if self._recommended else ""
        self._console.print(f"\nrescales: {self._rescales}{only}")


def _change(verdict: Verdict, *, is_made: bool) -> str:
    to = f" → {verdict.target}" if is_made else f", {verdict.target} recommended"
    return f"{verdict.operator} {verdict.current}{to}"


def _why(verdict: Verdict) -> str:
    """Why an operator changes; where only a guard wanted it, what that says."""
    if verdict.proposed != verdict.current:
        return verdict.reason
    return next((note.why for note in verdict.notes if note.after != note.before and note.why), verdict.reason)


def _told(value: float | None) -> str:
    return "?" if value is None else plain(value)


@contextmanager
def shown_operators(console: Console, view: OperatorsView) -> Iterator[OperatorsView]:
    """The view, redrawn on a terminal and printed line by line elsewhere."""
    if not console.is_terminal:
        yield view
        return
    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view
