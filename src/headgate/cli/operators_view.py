"""The live view of a job of several operators: a row for each, latency from end to end, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from headgate.cli.live_view import (
    CHANGES_SHOWN,
    MOST_POINTS,
    LiveView,
    OperatorCells,
    RunHeading,
    change_lines,
    end_to_end_line,
    event_line,
    known,
    operator_cells,
    operators_table,
    results_table,
)
from headgate.core.types import JSON, Decision, Event, Observation, Role, Verdict
from headgate.runtime.summary import RunRecord

MOST_OBSERVATIONS = 20_000
"""Beyond these, older ones are thinned out: a view may stay open for weeks."""


class OperatorsView(LiveView):
    """Shows a job's operators; ``end_to_end_s`` returns how long records take through all of them now."""

    def __init__(
        self,
        console: Console,
        heading: RunHeading,
        operators: tuple[str, ...],
        end_to_end_s: Callable[[], float | None],
    ) -> None:
        super().__init__(console)
        self._heading = heading
        self._end_to_end_s = end_to_end_s
        self.records = {name: RunRecord(heading.goal, name, most=MOST_OBSERVATIONS) for name in operators}
        self._latencies_s: list[float | None] = []
        self._changes: list[tuple[float, Verdict, str, str]] = []
        self._rescales = self._recommended = 0
        self._newest: Verdict | None = None
        self._last_event: Event | None = None

    def event(self, event: Event) -> None:
        """Take in an event of the loop or of the job."""
        with self._lock:
            last, self._last_event = self._last_event, event
        if last is None or (last.kind, last.detail) != (event.kind, event.detail):
            self._print(f"{event.kind}: {event.detail}")

    def tick(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in what the loop observed and decided; a watcher."""
        with self._lock:
            for record in self.records.values():
                record(observation, decision)
            if observation is not None:
                self._latencies_s = [*self._latencies_s, self._end_to_end_s()][-MOST_POINTS:]
            verdicts = () if decision is None else tuple(decision.verdicts.values())
            is_made = decision is not None and decision.role is Role.ACTING
            changes = [
                (self.elapsed_s, verdict, _change(verdict, is_made=is_made), _why(verdict))
                for verdict in verdicts
                if verdict.change
            ]
            self._changes = [*self._changes, *changes][-MOST_POINTS:]
            self._rescales += bool(changes) and is_made
            self._recommended += bool(changes) and not is_made
            if verdicts:
                stopped = [verdict for verdict in verdicts if verdict.proposed != verdict.target]
                self._newest = next(iter([*(verdict for _, verdict, _, _ in changes), *stopped, *verdicts]))
        for _, _, change, why in changes:
            self._print(f"{change}: {why}")
        if not self.console.is_terminal and self._is_line_due(self.elapsed_s):
            rows = "; ".join(f"{name} {' '.join(self._cells(name))}" for name in self.records)
            self._print(f"{rows}; {self._end_to_end()}")

    def to_json(self) -> dict[str, JSON]:
        """Return the results, operator by operator."""
        return {
            "version": 1,
            "rescales": self._rescales,
            "operators": {
                name: record.summary().to_json() for name, record in self.records.items() if record.observations
            },
        }

    def _cells(self, name: str) -> OperatorCells:
        observations = self.records[name].observations
        with_size = next((seen for seen in reversed(observations) if name in seen.instances), None)
        if with_size is None:
            return "?", "?/s", "lag ?", "? s"
        sample = next((seen.samples[name] for seen in reversed(observations) if name in seen.samples), None)
        return operator_cells(with_size.instances[name], sample)

    def _end_to_end(self) -> str:
        return f"end to end {known(self._latencies_s[-1] if self._latencies_s else None)} s"

    def title(self) -> str:
        return f"[bold]{self._heading.title}[/bold] · {self._heading.policy} · {self._heading.goal.slo}"

    def subtitle(self) -> str:
        return f"{self._elapsed()} · {self._heading.when_stopped}"

    def sections(self) -> Iterator[RenderableType]:
        width = self.console.width
        sizes: dict[str, list[float | None]] = {
            name: [seen.instances[name].ready for seen in record.observations[-MOST_POINTS:] if name in seen.instances]
            for name, record in self.records.items()
        }
        cells = {name: self._cells(name) for name in self.records}
        yield operators_table(("operator", "instances"), cells, sizes, max(10, width - 80))
        yield Text()
        yield end_to_end_line(self._end_to_end(), self._latencies_s, self._heading.goal, width)
        yield Text()
        yield from change_lines(self._changes[-CHANGES_SHOWN:])
        if self._last_event is not None:
            yield event_line("  job  ", self._last_event)
        if self._newest is not None:
            yield Text.assemble(("  now  ", "dim"), f"{self._newest.operator}: {self._newest.reason}")

    def print_result(self) -> None:
        """Print the results of the run."""
        self.console.print()
        self.console.print(results_table("operator", self._results()))
        only = f"; {self._recommended} recommended" if self._recommended else ""
        self.console.print(f"\nrescales: {self._rescales}{only}")

    def _results(self) -> Iterator[tuple[str, ...]]:
        for name, record in self.records.items():
            if record.observations:
                summary = record.summary()
                most = max(seen.instances[name].ready for seen in record.observations if name in seen.instances)
                yield (
                    name,
                    str(most),
                    f"{summary.mean_instances:.2f}",
                    str(summary.rescales),
                    f"{known(summary.latency_p95_s)} s",
                    known(summary.max_backlog),
                )


def _change(verdict: Verdict, *, is_made: bool) -> str:
    to = f" → {verdict.target}" if is_made else f", {verdict.target} recommended"
    return f"{verdict.operator} {verdict.current}{to}"


def _why(verdict: Verdict) -> str:
    """Return why an operator changes; where only a guard changed it, the guard's reason."""
    if verdict.proposed != verdict.current:
        return verdict.reason
    return next((note.why for note in verdict.notes if note.after != note.before and note.why), verdict.reason)
