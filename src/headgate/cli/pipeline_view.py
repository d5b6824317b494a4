"""The live view of a pipeline: a row for each job, latency from end to end, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console, RenderableType
from rich.text import Text

from headgate.cli.live_view import (
    CHANGES_SHOWN,
    LiveView,
    change_lines,
    end_to_end_line,
    known,
    operator_cells,
    operators_table,
    results_table,
)
from headgate.core.types import JSON, Observation, Verdict
from headgate.journal.codec import decision_from_dict, observation_from_dict
from headgate.pipelines.model import Pipeline
from headgate.pipelines.report import PipelineRun, counted_in_words
from headgate.workloads.replay import ReplayProgress


class PipelineView(LiveView):
    """Shows the jobs of a pipeline, by what its controller reports."""

    def __init__(self, console: Console, pipeline: Pipeline) -> None:
        super().__init__(console)
        self._pipeline = pipeline
        self._newest: Observation | None = None
        self._end: Mapping[str, JSON] = {}
        self._load: ReplayProgress | None = None
        self._sizes: dict[str, list[float | None]] = {job.name: [] for job in pipeline.jobs}
        self._latencies_s: list[float | None] = []
        self._changes: list[tuple[float, Verdict, str, str]] = []
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
                for name, sizes in self._sizes.items():
                    sizes.append(observation.instances[name].ready if name in observation.instances else None)
                self._latencies_s.append(self._end.get("lately_p95_s"))
            changes = self._take_decision(state)
        for _, _, change, why in changes:
            self._print(f"{change}: {why}")
        if not self.console.is_terminal and self._is_line_due(self.elapsed_s):
            jobs = "; ".join(f"{name} {' '.join(self._cells(name))}" for name in self._sizes)
            self._print(f"{jobs}; {self._end_to_end()}")

    def _take_decision(self, state: Mapping[str, JSON]) -> list[tuple[float, Verdict, str, str]]:
        if state.get("decision") is None:
            return []
        decision = decision_from_dict(state["decision"])
        if decision.at_s <= self._decided_s:
            return []
        self._decided_s = decision.at_s
        changes = [
            (self.elapsed_s, verdict, f"{verdict.operator} {verdict.current} → {verdict.target}", verdict.reason)
            for verdict in decision.verdicts.values()
            if verdict.change
        ]
        self._changes += changes
        return changes

    def _cells(self, name: str) -> tuple[str, ...]:
        if self._newest is None:
            return "", "", "", ""
        return operator_cells(self._newest.instances[name], self._newest.samples.get(name))

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

    def sections(self) -> Iterator[RenderableType]:
        width = self.console.width
        cells = {name: self._cells(name) for name in self._sizes}
        yield operators_table(("job", "executors"), cells, self._sizes, max(10, width - 70))
        yield Text()
        yield end_to_end_line(self._end_to_end(), self._latencies_s, self._pipeline.end_to_end, width)
        yield Text()
        yield from change_lines(self._changes[-CHANGES_SHOWN:])


def print_result(run: PipelineRun, console: Console) -> None:
    """Print the results of a run."""
    whole, slo = run.whole, run.pipeline.end_to_end.slo
    rows = [
        (
            name,
            str(run.largest[name]),
            f"{summary.mean_instances:.2f}",
            str(summary.rescales),
            f"{known(summary.latency_p95_s)} s",
            known(summary.max_backlog),
        )
        for name, summary in run.jobs.items()
    ]
    console.print()
    console.print(results_table("job", rows))
    in_time = "not measured" if run.in_time_pct is None else f"{run.in_time_pct:.1f} % of the records in time"
    console.print(
        f"\nend to end: {in_time} ({slo}); p50 {known(whole.latency_p50_s)} s, p95 {known(whole.latency_p95_s)} s, "
        f"p99 {known(whole.latency_p99_s)} s",
        markup=False,
        soft_wrap=True,
    )
    console.print(counted_in_words(run.outcome), markup=False, soft_wrap=True)
    for name, count in run.outcome.restarts.items():
        console.print(f"{name} was started again {count} ×", markup=False)
    console.print(
        Text(f"\nreport:  {run.report}\nwhy:     headgate explain {run.journal}", style="dim"), soft_wrap=True
    )
