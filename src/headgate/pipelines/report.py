"""The report on all jobs of a pipeline, from its journal and from its output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headgate.core.errors import OutputError
from headgate.core.types import JSON, Decision, Event, Observation, Receipt
from headgate.journal.writer import SqliteJournal
from headgate.pipelines.model import Pipeline
from headgate.pipelines.run import PipelineResult, PipelineRunPlan
from headgate.render.report import write_report
from headgate.runtime.summary import RunRecord, Summary


@dataclass(frozen=True)
class PipelineRun:
    """The results of a run, as a whole and job by job."""

    pipeline: Pipeline
    outcome: PipelineResult
    whole: Summary
    jobs: Mapping[str, Summary]
    largest: Mapping[str, int]
    """The most executors that each job had."""
    report: Path
    journal: Path

    @property
    def in_time_pct(self) -> float | None:
        """The share of records whose result was in time."""
        late = self.outcome.end_to_end.get("late_share")
        return None if late is None else 100 * (1 - late)

    def to_json(self) -> dict[str, JSON]:
        return {
            "pipeline": self.pipeline.name,
            "policy": self.pipeline.policy,
            "objective": str(self.pipeline.end_to_end.slo),
            "in_time_pct": self.in_time_pct,
            "sent": self.outcome.sent,
            "end_to_end": dict(self.outcome.end_to_end),
            "restarts": dict(self.outcome.restarts),
            "whole": self.whole.to_json(),
            "jobs": {name: job.to_json() | {"largest": self.largest[name]} for name, job in self.jobs.items()},
        }


@dataclass(frozen=True)
class _Entries:
    observations: Sequence[Observation]
    decisions: Sequence[Decision]
    receipts: Sequence[Receipt]
    events: Sequence[Event]


def _entries(journal: Path, job: str) -> _Entries:
    """Return the entries of all runs of the pipeline's controller, which may have been restarted."""
    with closing(SqliteJournal.read(journal)) as reader:
        runs = [number for number, _ in reader.runs(job)]
        return _Entries(
            [observation for run in runs for observation in reader.observations(run=run)],
            [decision for run in runs for decision in reader.decisions(run=run)],
            [receipt for run in runs for receipt in reader.receipts(run=run)],
            [event for run in runs for event in reader.events(run=run)],
        )


def write_pipeline_report(
    plan: PipelineRunPlan, outcome: PipelineResult, on_failure: Callable[[OutputError], None] | None = None
) -> PipelineRun:
    """Write ``report.html`` next to the journal, and return the results.

    ``on_failure`` is called if the report cannot be written; without it that raises an ``OutputError``.
    """
    pipeline = plan.pipeline
    entries = _entries(plan.journal, pipeline.name)
    jobs = {job.name: _summary(pipeline, job.name, entries) for job in pipeline.jobs}
    whole = _whole(outcome, jobs)
    report = plan.directory / "report.html"
    page = partial(
        write_report,
        report,
        title=f"{pipeline.policy} on the pipeline {pipeline.name}",
        observations=entries.observations,
        decisions=entries.decisions,
        objective=pipeline.objective,
        summary=whole,
        receipts=entries.receipts,
        events=entries.events,
        operators=jobs,
        notes=_notes(pipeline, outcome),
    )
    try:
        page()
    except OutputError as error:
        if on_failure is None:
            raise
        on_failure(error)
    largest = {
        name: max((seen.instances[name].ready for seen in entries.observations if name in seen.instances), default=0)
        for name in jobs
    }
    return PipelineRun(pipeline, outcome, whole, jobs, largest, report, plan.journal)


def _summary(pipeline: Pipeline, name: str, entries: _Entries) -> Summary:
    price = pipeline.job(name).price
    record = RunRecord(pipeline.objective.priced(price), name)
    for seen in entries.observations:
        record(seen, None)
    for decided in entries.decisions:
        record(None, decided)
    return record.summary()


def _whole(outcome: PipelineResult, jobs: Mapping[str, Summary]) -> Summary:
    """Return the figures of all jobs together; latency is from end to end."""
    measured, late = outcome.end_to_end, outcome.end_to_end.get("late_share")
    backlogs = [job.max_backlog for job in jobs.values() if job.max_backlog is not None]
    qos_pcts = [job.qos_pct for job in jobs.values() if job.qos_pct is not None]
    costs = [job.cost for job in jobs.values() if job.cost is not None]
    return Summary(
        slo_violation_pct=None,
        late_records_pct=None if late is None else 100 * late,
        qos_pct=min(qos_pcts, default=None),
        mean_instances=sum(job.mean_instances for job in jobs.values()),
        instance_seconds=sum(job.instance_seconds for job in jobs.values()),
        rescales=sum(job.rescales for job in jobs.values()),
        max_backlog=max(backlogs, default=None),
        latency_p50_s=measured.get("p50_s"),
        latency_p95_s=measured.get("p95_s"),
        latency_p99_s=measured.get("p99_s"),
        cost=sum(costs) if costs else None,
    )


def _notes(pipeline: Pipeline, outcome: PipelineResult) -> list[str]:
    streams = ", ".join(f"{source} → {target}" for source, target in pipeline.topology.streams)
    notes = [f"Jobs: {streams or pipeline.jobs[0].name}. Latency is from end to end, by the times in the records."]
    if pipeline.load is not None:
        load = pipeline.load
        fast = "as fast as accepted" if math.isinf(load.speed) else f"at {load.speed:g} times its speed"
        speed = "" if load.speed == 1 else f", {fast},"
        notes.append(f"Load: {load.offered.describe()}{speed} into {pipeline.load_to}.")
    notes.append(counted_in_words(outcome))
    for name, count in outcome.restarts.items():
        notes.append(f"{name} was started again {'once' if count == 1 else f'{count} times'}.")
    return notes


def counted_in_words(outcome: PipelineResult) -> str:
    """Describe how many records went in and came out."""
    measured = outcome.end_to_end
    out = f"{measured.get('records', 0):,.0f} came out"
    if measured.get("distinct"):
        out = f"{out}, {measured['distinct']:,} different ones, {measured['doubled']:,} of them again"
    if measured.get("unmeasured"):
        out = f"{out}; {measured['unmeasured']:,} results did not say when their record was due"
    return f"{out}." if outcome.sent is None else f"{outcome.sent:,} records were sent; {out}."
