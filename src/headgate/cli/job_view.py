"""The live view of a job with one operator: load, lag, latency against the objective, executors, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from headgate.cli.live_view import LiveView, RunHeading, change_lines, event_line, gauges, known, sparkline
from headgate.core.budget import Budget
from headgate.core.types import Decision, Event, Observation, Verdict
from headgate.core.units import format_duration, plain
from headgate.journal.findings import money, pace_in_words, total_spent
from headgate.runtime.summary import RunRecord


class LiveJobView(LiveView):
    """Shows the run so far of one job; ``tick`` is a watcher of its loop."""

    def __init__(self, console: Console, heading: RunHeading) -> None:
        super().__init__(console)
        self._heading = heading
        self._record = RunRecord(heading.goal)
        self._counts: dict[str, tuple[str, str]] = {}
        self._last_change: tuple[float, Verdict, str, str] | None = None
        self._last_event: Event | None = None
        self._newest: Verdict | None = None
        self._spent: list[float | None] = []
        """The share of the error budget that was spent, by tick."""

    def count(self, name: str, text: str, more: str) -> None:
        """Show a count that the loop does not see, such as records read; it replaces the last one of that name."""
        with self._lock:
            self._counts[name] = (text, more)

    def event(self, event: Event) -> None:
        """Take in an event of the query."""
        with self._lock:
            self._last_event = event
        self._print(f"{event.kind}: {event.detail}")

    def tick(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in what the loop observed and decided."""
        with self._lock:
            self._record(observation, decision)
            if observation is not None:
                self._spent.append(None if (budget := self._budget()) is None else budget.spent)
            verdict = None if decision is None else decision.verdicts.get(self._record.operator)
            if decision is None or verdict is None:
                return
            self._newest = verdict
            at_s = decision.at_s - self._record.start_s
            if verdict.change:
                self._last_change = (at_s, verdict, f"{verdict.current} → {verdict.target}", verdict.reason)
            is_due = self._is_line_due(at_s)
            if not self.console.is_terminal and (verdict.change or is_due):
                self._print_state(at_s, verdict)

    def _print_state(self, at_s: float, verdict: Verdict) -> None:
        point = self._record.series()[-1]
        parts = [
            f"{name} {known(point[key])}{unit}"
            for name, key, unit in (
                ("rate", "input_rate", "/s"),
                ("lag", "backlog", ""),
                ("latency", "latency_s", " s"),
                ("executors", "ready", ""),
            )
        ]
        if (budget := self._budget()) is not None:
            parts.append(f"budget {_spent(budget)}")
        if (spending := self._record.standing().spending) is not None:
            parts.append(f"cost {money(total_spent(spending)[0])}")
        parts += [f"{name} {text}" for name, (text, _) in self._counts.items()]
        why = f"; {verdict.current} → {verdict.target}: {verdict.reason}" if verdict.change else ""
        self._print(f"{', '.join(parts)}{why}", since=f"+{at_s:.0f}s")

    def title(self) -> str:
        return f"[bold]{self._heading.title}[/bold] · {self._heading.policy} · {self._heading.goal}"

    def subtitle(self) -> str:
        observations = self._record.observations
        if not observations or self._stage != "running":
            return self._stage
        elapsed_s = observations[-1].at_s - observations[0].at_s
        of = "" if self._heading.seconds is None else f" of {format_duration(self._heading.seconds)}"
        return f"{elapsed_s:.0f} s{of} · {self._heading.when_stopped}"

    def sections(self) -> Iterator[RenderableType]:
        yield gauges(self._gauges(), 10, 26)
        yield Text()
        if self._last_change is not None:
            yield from change_lines([self._last_change])
        if self._last_event is not None:
            yield event_line("query  ", self._last_event)
        if self._newest is not None:
            stopped = [note.why for note in self._newest.notes if note.before != note.after]
            held = f" (held: {stopped[-1]})" if stopped and not self._newest.change else ""
            yield Text.assemble(("  now  ", "dim"), f"{self._newest.reason}{held}")

    def _gauges(self) -> Iterator[tuple[str, str, str]]:
        series = self._record.series()
        newest = series[-1] if series else {"input_rate": None, "backlog": None, "latency_s": None, "ready": 0}
        planned = newest.get("planned", 1)
        width = max(10, self.console.width - 50)
        executors = f"{newest['ready']} ready" + (f", {planned} planned" if planned != newest["ready"] else "")
        for name, key, style, text in (
            ("load", "input_rate", "blue", f"{known(newest['input_rate'])} records/s"),
            ("lag", "backlog", "yellow", f"{known(newest['backlog'])} records"),
            ("latency", "latency_s", self._latency_style(newest["latency_s"]), f"{known(newest['latency_s'])} s"),
            ("executors", "ready", "green", executors),
        ):
            yield name, f"[bold {style}]{text}", f"[{style}]{sparkline([point[key] for point in series], width)}"
        if (budget := self._budget()) is not None:
            style = "red" if budget.is_exceeded else "cyan"
            burn = "" if budget.burn_short is None else f", burn {plain(budget.burn_short)} ×"
            text = f"{_spent(budget)}{burn}"
            yield "budget", f"[bold {style}]{text}", f"[{style}]{sparkline(self._spent, width)}"
        if (spending := self._record.standing().spending) is not None:
            yield "cost", f"[bold]{money(total_spent(spending)[0])}", pace_in_words(spending)
        for name, (text, more) in self._counts.items():
            yield name, f"[bold]{text}", f"[dim]{more}"

    def _budget(self) -> Budget | None:
        return self._record.standing().budgets.get(self._record.operator)

    def _latency_style(self, latency_s: float | None) -> str:
        bound_s = getattr(self._heading.goal.slo, "bound_s", None)
        return "red" if latency_s is not None and bound_s is not None and latency_s >= bound_s else "magenta"


def _spent(budget: Budget) -> str:
    """Return what is spent of a budget; of a young one, whose size is not known yet, the share missed."""
    return (
        f"{plain(100 * (budget.missed_share or 0.0))} % missed"
        if budget.is_young
        else f"{plain(100 * budget.spent)} % spent"
    )
