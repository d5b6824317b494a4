"""The live views of jobs of several operators: a row for each, latency from end to end, and the reasons of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.cli.common import say
from headgate.cli.live_view import (
    CHANGES_SHOWN,
    MOST_POINTS,
    LiveView,
    RunHeading,
    change_lines,
    event_line,
    known,
    sparkline,
)
from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON, Decision, Event, Instances, Observation, Role, Sample, Verdict
from headgate.journal.codec import decision_from_dict, observation_from_dict
from headgate.runtime.summary import RunRecord

if TYPE_CHECKING:
    from headgate.pipelines.model import Pipeline
    from headgate.pipelines.report import PipelineRun
    from headgate.runtime.summary import Summary
    from headgate.workloads.replay import ReplayProgress

MOST_OBSERVATIONS = 20_000
"""Beyond these, older ones are thinned out: a view may stay open for weeks."""

OperatorCells = tuple[str, str, str, str]
"""Instances, load, lag and latency of an operator."""


class TableView(LiveView):
    """Base of views with a row for each operator."""

    headings = ("operator", "instances")
    columns_before_sizes = 80

    def __init__(self, console: Console, objective: Objective, operators: Iterable[str]) -> None:
        super().__init__(console)
        self._objective = objective
        self._operators = tuple(operators)
        self._latencies_s: list[float | None] = []
        self._changes: list[tuple[float, Verdict, str, str]] = []

    def _cells(self, name: str) -> OperatorCells:
        raise NotImplementedError

    def _sizes(self, name: str) -> list[float | None]:
        raise NotImplementedError

    def _end_to_end(self) -> str:
        raise NotImplementedError

    def _print_new(self, changes: Iterable[tuple[float, Verdict, str, str]]) -> None:
        """Print lines for new changes, and now and then one for all operators, where there is no terminal."""
        for _, _, change, why in changes:
            self._print(f"{change}: {why}")
        if not self.console.is_terminal and self._is_line_due(self.elapsed_s):
            rows = "; ".join(f"{name} {' '.join(self._cells(name))}" for name in self._operators)
            self._print(f"{rows}; {self._end_to_end()}")

    def sections(self) -> Iterator[RenderableType]:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        for heading in (*self.headings, "load", "lag", "latency"):
            table.add_column(heading, no_wrap=True)
        table.add_column("size so far", no_wrap=True, ratio=1)
        width = max(10, self.console.width - self.columns_before_sizes)
        for name in self._operators:
            curve = sparkline(self._sizes(name)[-MOST_POINTS:], width)
            table.add_row(Text(name, "bold cyan"), *self._cells(name), f"[green]{curve}")
        yield table
        yield Text()
        newest_s = self._latencies_s[-1] if self._latencies_s else None
        slo = self._objective.slo
        is_late = isinstance(slo, LatencySlo) and newest_s is not None and newest_s > slo.bound_s
        curve = sparkline(self._latencies_s[-MOST_POINTS:], max(10, self.console.width - 60))
        yield Text.assemble((f"{self._end_to_end()}  ", "bold red" if is_late else "bold magenta"), curve)
        yield Text()
        yield from change_lines(self._changes[-CHANGES_SHOWN:])


def operator_cells(instances: Instances, sample: Sample | None) -> OperatorCells:
    """Return the state of an operator in words.

    >>> operator_cells(Instances(3, 3, 2, stale=True), None)
    ('2→3?', '?/s', 'lag ?', '? s')
    """
    size = f"{instances.ready}" if instances.ready == instances.planned else f"{instances.ready}→{instances.planned}"
    if instances.stale:
        size = f"{size}?"
    if sample is None:
        return size, "?/s", "lag ?", "? s"
    lag, latency = known(sample.backlog), known(sample.worst_latency_s)
    return size, f"{known(sample.input_rate_per_s)}/s", f"lag {lag}", f"{latency} s"


def results_table(first_heading: str, rows: Iterable[tuple[str, int, Summary]]) -> Table:
    """Return the results of operators, each with its largest size."""
    table = Table(first_heading, box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("most", "mean", "changes", "latency p95", "largest lag"):
        table.add_column(heading, justify="right")
    for name, most, summary in rows:
        latency, lag = f"{known(summary.latency_p95_s)} s", known(summary.max_backlog)
        table.add_row(Text(name), str(most), f"{summary.mean_instances:.2f}", str(summary.rescales), latency, lag)
    return table


# --------------------------------------------------------------------------------------------------------------- a job


class OperatorsView(TableView):
    """Shows a job's operators; ``end_to_end_s`` returns how long records take through all of them now."""

    def __init__(
        self,
        console: Console,
        heading: RunHeading,
        operators: tuple[str, ...],
        end_to_end_s: Callable[[], float | None],
    ) -> None:
        super().__init__(console, heading.goal, operators)
        self._heading = heading
        self._end_to_end_s = end_to_end_s
        self.records = {name: RunRecord(heading.goal, name, most=MOST_OBSERVATIONS) for name in operators}
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
        self._print_new(changes)

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

    def _sizes(self, name: str) -> list[float | None]:
        newest = self.records[name].observations[-MOST_POINTS:]
        return [seen.instances[name].ready for seen in newest if name in seen.instances]

    def _end_to_end(self) -> str:
        return f"end to end {known(self._latencies_s[-1] if self._latencies_s else None)} s"

    def title(self) -> str:
        return f"[bold]{self._heading.title}[/bold] · {self._heading.policy} · {self._heading.goal.slo}"

    def subtitle(self) -> str:
        return f"{self._elapsed()} · {self._heading.when_stopped}"

    def sections(self) -> Iterator[RenderableType]:
        yield from super().sections()
        if self._last_event is not None:
            yield event_line("  job  ", self._last_event)
        if self._newest is not None:
            yield Text.assemble(("  now  ", "dim"), f"{self._newest.operator}: {self._newest.reason}")

    def print_result(self) -> None:
        """Print the results of the run."""
        rows = [
            (name, max(seen.instances[name].ready for seen in record.observations if name in seen.instances), record)
            for name, record in self.records.items()
            if record.observations
        ]
        self.console.print()
        self.console.print(results_table("operator", ((name, most, record.summary()) for name, most, record in rows)))
        only = f"; {self._recommended} recommended" if self._recommended else ""
        self.console.print(f"\nrescales: {self._rescales}{only}")


def _change(verdict: Verdict, *, is_made: bool) -> str:
    to = f" → {verdict.target}" if is_made else f", {verdict.target} recommended"
    return f"{verdict.operator} {verdict.current}{to}"


def _why(verdict: Verdict) -> str:
    """Return why an operator changes; where only a guard changed it, the guard's reason."""
    if verdict.proposed != verdict.current:
        return verdict.reason
    return next((note.why for note in verdict.notes if note.after != note.before and note.why), verdict.reason)


# ---------------------------------------------------------------------------------------------------------- a pipeline


class PipelineView(TableView):
    """Shows the jobs of a pipeline, by what its controller reports."""

    headings = ("job", "executors")
    columns_before_sizes = 70

    def __init__(self, console: Console, pipeline: Pipeline) -> None:
        super().__init__(console, pipeline.end_to_end, (job.name for job in pipeline.jobs))
        self._pipeline = pipeline
        self._newest: Observation | None = None
        self._end: Mapping[str, JSON] = {}
        self._load: ReplayProgress | None = None
        self._ready: dict[str, list[float | None]] = {name: [] for name in self._operators}
        self._decided_s = 0.0

    def state(self, state: Mapping[str, JSON], load: ReplayProgress | None) -> None:
        """Take in the newest state of the controller."""
        if state.get("observation") is None:
            return
        with self._lock:
            observation = observation_from_dict(state["observation"])
            is_new = self._newest is None or observation.at_s != self._newest.at_s
            self._newest, self._end, self._load = observation, state["end_to_end"], load
            if is_new:
                for name, sizes in self._ready.items():
                    sizes.append(observation.instances[name].ready if name in observation.instances else None)
                self._latencies_s.append(self._end.get("lately_p95_s"))
            changes = self._take_decision(state)
        self._print_new(changes)

    def _take_decision(self, state: Mapping[str, JSON]) -> list[tuple[float, Verdict, str, str]]:
        if state.get("decision") is None:
            return []
        decision = decision_from_dict(state["decision"])
        if decision.at_s <= self._decided_s:
            return []
        self._decided_s = decision.at_s
        changes = [
            (self.elapsed_s, verdict, _change(verdict, is_made=True), verdict.reason)
            for verdict in decision.verdicts.values()
            if verdict.change
        ]
        self._changes += changes
        return changes

    def _cells(self, name: str) -> OperatorCells:
        if self._newest is None:
            return "", "", "", ""
        return operator_cells(self._newest.instances[name], self._newest.samples.get(name))

    def _sizes(self, name: str) -> list[float | None]:
        return self._ready[name]

    def _end_to_end(self) -> str:
        late, lately_s = self._end.get("late_share"), self._end.get("lately_p95_s")
        text = f"end to end p95 {known(lately_s)} s"
        return text if late is None else f"{text}, {100 * (1 - late):.1f} % in time"

    def title(self) -> str:
        pipeline = self._pipeline
        return f"[bold]headgate pipeline[/bold] · {pipeline.name} · {pipeline.policy} · {pipeline.end_to_end.slo}"

    def subtitle(self) -> str:
        if self._load is None or self._pipeline.load is None:
            return self._stage
        return f"{self._stage} · {self._load.sent:,} records sent · {self._elapsed()} · Ctrl-C stops and cleans up"


def print_result(run: PipelineRun, console: Console) -> None:
    """Print the results of a pipeline's run."""
    from headgate.pipelines.report import counted_in_words

    whole = run.whole
    console.print()
    console.print(results_table("job", ((name, run.largest[name], summary) for name, summary in run.jobs.items())))
    in_time = "not measured" if run.in_time_pct is None else f"{run.in_time_pct:.1f} % of the records in time"
    percentiles = (("p50", whole.latency_p50_s), ("p95", whole.latency_p95_s), ("p99", whole.latency_p99_s))
    latencies = ", ".join(f"{name} {known(latency_s)} s" for name, latency_s in percentiles)
    say(f"\nend to end: {in_time} ({run.pipeline.end_to_end.slo}); {latencies}", console=console)
    say(counted_in_words(run.outcome), console=console)
    for name, count in run.outcome.restarts.items():
        console.print(f"{name} was started again {count} ×", markup=False)
    say(f"\nreport:  {run.report}\nwhy:     headgate explain {run.journal}", console=console, style="dim")
