"""What a running pipeline looks like in the terminal: a row for each job, latency from end to end, and why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headgate.cli.sparklines import sparkline
from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Observation, Verdict
from headgate.core.units import format_duration, plain
from headgate.journal.codec import decision_from_dict, observation_from_dict
from headgate.pipelines.model import Pipeline
from headgate.pipelines.report import PipelineRun, counted_in_words
from headgate.workloads.replay import Standing

PLAIN_EVERY_S = 10.0
"""Where there is no terminal to redraw, a line is printed this often."""
CHANGES_SHOWN = 6
KEPT = 200


class PipelineView:
    """Shows what it is told."""

    def __init__(self, console: Console, pipeline: Pipeline) -> None:
        self._console = console
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self._stage = ""
        self._seen: Observation | None = None
        self._end: Mapping[str, JSON] = {}
        self._load: Standing | None = None
        self._sizes: dict[str, list[float | None]] = {job.name: [] for job in pipeline.jobs}
        self._latencies_s: list[float | None] = []
        self._changes: list[tuple[float, Verdict]] = []
        self._decided_s = 0.0
        self._printed_s = -PLAIN_EVERY_S

    def stage(self, text: str) -> None:
        with self._lock:
            self._stage = text
        if not self._console.is_terminal:
            self._console.print(f"{self._elapsed():>7}  {text}", soft_wrap=True)

    def state(self, state: Mapping[str, JSON], load: Standing | None) -> None:
        """Take in what the controller saw last."""
        if state.get("observation") is None:
            return
        with self._lock:
            seen = observation_from_dict(state["observation"])
            is_new = self._seen is None or seen.at_s != self._seen.at_s
            self._seen, self._end, self._load = seen, state["end_to_end"], load
            if is_new:
                for name, sizes in self._sizes.items():
                    sizes.append(seen.instances[name].ready if name in seen.instances else None)
                self._latencies_s.append(self._end.get("lately_p95_s"))
            changes = self._take_decision(state)
        if not self._console.is_terminal:
            self._print_lines(changes)

    def _take_decision(self, state: Mapping[str, JSON]) -> list[Verdict]:
        if state.get("decision") is None:
            return []
        decision = decision_from_dict(state["decision"])
        if decision.at_s <= self._decided_s:
            return []
        self._decided_s = decision.at_s
        changes = [verdict for verdict in decision.verdicts.values() if verdict.change]
        self._changes += [(time.monotonic() - self._began_s, verdict) for verdict in changes]
        return changes

    def _elapsed(self) -> str:
        return format_duration(round(time.monotonic() - self._began_s))

    def _print_lines(self, changes: list[Verdict]) -> None:
        for verdict in changes:
            told = f"{verdict.operator} {verdict.current} → {verdict.target}: {verdict.reason}"
            self._console.print(f"{self._elapsed():>7}  {told}", soft_wrap=True)
        now_s = time.monotonic() - self._began_s
        if now_s - self._printed_s < PLAIN_EVERY_S or self._seen is None:
            return
        self._printed_s = now_s
        jobs = "; ".join(f"{name} {' '.join(self._cells(name))}" for name in self._sizes)
        self._console.print(f"{self._elapsed():>7}  {jobs}; {self._end_in_words()}", soft_wrap=True)

    def _cells(self, name: str) -> tuple[str, str, str, str]:
        """Executors, load, lag and latency of a job."""
        assert self._seen is not None
        size, sample = self._seen.instances[name], self._seen.samples.get(name)
        executors = f"{size.ready}" if size.ready == size.planned else f"{size.ready}→{size.planned}"
        if size.stale:
            executors = f"{executors}?"
        if sample is None:
            return executors, "?/s", "lag ?", "? s"
        return (
            executors,
            f"{_told(sample.input_rate_per_s)}/s",
            f"lag {_told(sample.backlog)}",
            f"{_told(sample.worst_latency_s)} s",
        )

    def _end_in_words(self) -> str:
        late, lately_s = self._end.get("late_share"), self._end.get("lately_p95_s")
        told = f"end to end p95 {_told(lately_s)} s"
        return told if late is None else f"{told}, {100 * (1 - late):.1f} % in time"

    # --------------------------------------------------------------------------------------------------- on a terminal

    def __rich__(self) -> RenderableType:
        with self._lock:
            parts: list[RenderableType] = [self._table(), Text(), self._end_line(), Text(), *self._words()]
            return Panel(
                Group(*parts),
                title=f"[bold]headgate pipeline[/bold] · {self._pipeline.name} · {self._pipeline.policy} · "
                f"{self._pipeline.asked.slo}",
                subtitle=self._subtitle(),
                padding=(1, 2),
            )

    def _subtitle(self) -> str:
        if self._load is None or self._pipeline.load is None:
            return self._stage
        return f"{self._stage} · {self._load.sent:,} records sent · {self._elapsed()} · Ctrl-C stops and cleans up"

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        for heading in ("job", "executors", "load", "lag", "latency"):
            table.add_column(heading, no_wrap=True)
        table.add_column("size so far", no_wrap=True, ratio=1)
        width = max(10, self._console.width - 70)
        for name, sizes in self._sizes.items():
            cells = ("", "", "", "") if self._seen is None else self._cells(name)
            table.add_row(f"[bold cyan]{name}", *cells, f"[green]{sparkline(sizes[-KEPT:], width)}")
        return table

    def _end_line(self) -> Text:
        slo, lately_s = self._pipeline.asked.slo, self._end.get("lately_p95_s")
        is_late = isinstance(slo, LatencySlo) and lately_s is not None and lately_s > slo.bound_s
        curve = sparkline(self._latencies_s[-KEPT:], max(10, self._console.width - 60))
        return Text.assemble((f"{self._end_in_words()}  ", "bold red" if is_late else "bold magenta"), curve)

    def _words(self) -> Iterator[Text]:
        for at_s, verdict in self._changes[-CHANGES_SHOWN:]:
            style = "bold green" if verdict.change > 0 else "bold yellow"
            change = (f"{verdict.operator} {verdict.current} → {verdict.target}", style)
            yield Text.assemble((f"{at_s:4.0f} s  ", "dim"), change, f"  {verdict.reason}")


def _told(value: float | None) -> str:
    return "?" if value is None else plain(value)


@contextmanager
def pipeline_view(console: Console, pipeline: Pipeline) -> Iterator[PipelineView]:
    """The view of a pipeline, redrawn on a terminal and printed line by line elsewhere."""
    view = PipelineView(console, pipeline)
    if not console.is_terminal:
        yield view
        return
    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view


def print_result(told: PipelineRun, console: Console) -> None:
    """What a run came to."""
    whole, slo = told.whole, told.pipeline.asked.slo
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("job", "most", "mean", "changes", "latency p95", "largest lag"):
        table.add_column(heading, justify="left" if heading == "job" else "right")
    for name, one in told.jobs.items():
        table.add_row(
            name,
            str(told.largest[name]),
            f"{one.mean_instances:.2f}",
            str(one.rescales),
            f"{_told(one.latency_p95_s)} s",
            _told(one.max_backlog),
        )
    console.print()
    console.print(table)
    kept = "not measured" if told.kept_pct is None else f"{told.kept_pct:.1f} % of the records in time"
    console.print(
        f"\nend to end: {kept} ({slo}); p50 {_told(whole.latency_p50_s)} s, p95 {_told(whole.latency_p95_s)} s, "
        f"p99 {_told(whole.latency_p99_s)} s",
        markup=False,
        soft_wrap=True,
    )
    console.print(counted_in_words(told.outcome), markup=False, soft_wrap=True)
    for name, count in told.outcome.restarts.items():
        console.print(f"{name} was started again {count} ×", markup=False)
    console.print(
        Text(f"\nreport:  {told.report}\nwhy:     headgate explain {told.journal}", style="dim"), soft_wrap=True
    )
