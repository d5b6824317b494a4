"""A live run on a local cluster, observed from outside, as the ground truth for the simulator.

Latencies come from the sink's files and the load's formula, instance time from the processes of this machine. Only
batches, start-ups and decisions, which calibrate the simulator, come from Headgate.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from headgate.apps.sink_files import delivered
from headgate.apps.steady_job import SparkSession, SteadyJob
from headgate.core.course import Course, rows
from headgate.core.objective import Objective
from headgate.core.types import Decision, Observation
from headgate.lab.fidelity import Recording
from headgate.runtime.autoscaler import autoscale
from headgate.runtime.summary import RunRecord, Summary, summarise
from headgate.workloads import parse_workload
from headgate.workloads.composed import Placed

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
LEAD_S = 6.0
"""The load starts this long after the job, so that the first, empty triggers are over."""
INTERVAL_S = 1.0
_GRID_S = 0.01


@dataclass(frozen=True)
class ObservedRunPlan:
    """A steady job whose executors follow its load."""

    workload: str
    seconds: float
    """How long records arrive; the run ends when all are processed."""
    objective: Objective
    policy: str = "reactive"
    settings: Mapping[str, object] = field(default_factory=lambda: {"idle_for_s": 10.0, "drain_within_s": 20.0})
    cost_s: float = 0.05
    trigger_interval_s: float = 2.0
    partitions: int = 6


@dataclass(frozen=True)
class ObservedRun:
    recording: Recording
    course: Course
    """The true course of its records and executors."""
    measured: Summary
    """The figures of that course."""
    missing: int
    doubled: int


class Executors:
    """A watcher that counts the executors' processes as well as the requested executors."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int, int, int]] = []
        """Time, running processes, ready executors, and executors to be paid for."""

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is not None:
            running, size = len(_executors_running()), observation.instances["job"]
            self.seen.append((observation.at_s, running, size.ready, max(running, size.requested)))

    def gone_after_s(self, decided_s: float, target: int) -> float | None:
        """Return how long after a decision no more executors than its target were running."""
        return next(
            (at_s - decided_s for at_s, running, *_ in self.seen if at_s > decided_s and running <= target), None
        )


def observe_run(spark: SparkSession, plan: ObservedRunPlan, directory: Path) -> ObservedRun:
    """Run a plan in a session with one executor."""
    record, executors = RunRecord(plan.objective), Executors()
    about: dict[str, Any] = {"trigger_interval_s": plan.trigger_interval_s, "partitions": plan.partitions}
    job = SteadyJob(directory, plan.workload, plan.seconds, plan.cost_s, **about)
    job.warm_up(spark)
    load_starts_s = time.time() + LEAD_S
    with autoscale(
        spark, plan.objective, plan.policy, settings=plan.settings, interval=INTERVAL_S, take_over=True
    ) as autoscaler:
        autoscaler.watch(record)
        autoscaler.watch(executors)
        query = replace(job, load_starts_s=load_starts_s).start(spark)
        try:
            time.sleep(max(0.0, load_starts_s + plan.seconds - time.time()))
            query.processAllAvailable()
        finally:
            query.stop()
    output = job.check(spark)
    start_s = record.start_s
    load = Placed(parse_workload(plan.workload), load_starts_s - start_s, plan.seconds)
    left_s = [
        gone_s
        for decision in record.decisions
        if (verdict := decision.verdicts["job"]).change < 0
        and (gone_s := executors.gone_after_s(decision.at_s, verdict.target)) is not None
    ]
    course = course_of_files(Path(job.output), load, start_s, record.observations[-1].at_s - start_s, executors)
    return ObservedRun(
        # The fastest was idle; the others finished work first, which is simulated as well.
        recording=Recording.of(record, load, drain_s=min(left_s, default=0.0), **about),
        course=course,
        measured=summarise(course, record.decisions, plan.objective),
        missing=output.missing,
        doubled=output.doubled,
    )


def course_of_files(output: Path, load: Placed, start_s: float, to_s: float, executors: Executors) -> Course:
    """Return the true course of records and executors; times are from the start of the run."""
    grid_s = np.arange(load.begins_s, load.ends_s + 2 * _GRID_S, _GRID_S)
    arrivals = np.array([load.arrivals(0.0, at_s) for at_s in grid_s])
    records = int(arrivals[-1])
    arrived_s = np.interp(np.arange(1, records + 1), arrivals, grid_s)
    sink = delivered(output, records)
    committed_s, written_s = sink.committed_s - start_s, np.sort(sink.written_s) - start_s
    latency_s = committed_s - arrived_s
    # Backlog is counted just before and just after each write.
    turns_s = np.unique(np.concatenate([[0.0, load.begins_s], written_s, [to_s]]))
    arrived = np.searchsorted(arrived_s, turns_s, side="right")
    before = arrived - np.searchsorted(written_s, turns_s)
    after = arrived - np.searchsorted(written_s, turns_s, side="right")
    oldest = [(float(arrived_s[committed_s == end_s].min()), float(end_s)) for end_s in np.unique(committed_s)]
    sizes = [
        (before[0] - start_s, after[0] - start_s, after[2], after[3]) for before, after in pairwise(executors.seen)
    ]
    return Course(
        0.0,
        to_s,
        waits=rows(((arrival_s, end_s, 0.0, end_s - arrival_s) for arrival_s, end_s in oldest), 4),
        results=np.column_stack([np.ones(records), latency_s, latency_s]),
        sizes=rows(sizes, 4),
        loads=lambda: np.column_stack([turns_s[:-1], turns_s[1:], after[:-1], before[1:], np.diff(arrived)]),
        max_backlog=float(before.max()),
    )


def _executors_running() -> set[str]:
    """Return the ids of executors below this process; as a set, because a starting worker shows twice."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if EXECUTOR in command:
            found.add(command[command.index("--executor-id") + 1])
    return found
