"""The demonstration: a real Spark cluster on this machine, a load that rises and falls, and the autoscaler.

The job's operator sleeps instead of computing, so that several executors on a few cores behave like executors on
separate machines (see ``apps/steady_job.py``). Waits are shorter than in production, so that the demonstration takes a
few minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headgate._version import __version__
from headgate.core.errors import EngineError, InputError
from headgate.core.objective import Objective, parse_objective
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.types import JSON
from headgate.lab.batch_times import MeasuredBatchTimes, fit_batch_times
from headgate.runtime.assembly import preview_policy
from headgate.runtime.autoscaler import autoscale
from headgate.runtime.loop import Watcher
from headgate.runtime.simulate import fixed_size_comparison
from headgate.runtime.summary import RunRecord, Summary
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

if TYPE_CHECKING:
    from headgate.apps.steady_job import StreamingQuery

LEAST_SECONDS = 40.0
QUICK_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "autopilot": {"scale_in_window_s": 15.0},
    "reactive": {"idle_for_s": 6.0, "drain_within_s": 20.0},
    "threshold": {"upper_for_s": 4.0, "lower_for_s": 8.0, "grace_period_s": 4.0},
    "hpa": {"scale_in_window_s": 15.0},
    "spark-streaming-dra": {"interval_s": 8.0},
}
"""Default settings of policies in the demonstration: waits of seconds instead of minutes."""


@dataclass(frozen=True)
class DemoPlan:
    """The load peaks a little before half of the time; the rest is for scaling in."""

    directory: Path
    """Holds the journal and, while the job runs, its output."""
    seconds: float = 240.0
    policy: str = DEFAULT_POLICY
    settings: Mapping[str, object] = field(default_factory=dict)
    objective: str = "latency p95 < 15s"
    max_executors: int = 4
    base_rate_per_s: float = 10.0
    peak_rate_per_s: float = 40.0
    cost_s: float = 0.05
    trigger_interval_s: float = 2.0
    interval_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.seconds >= LEAST_SECONDS:
            raise InputError(f"seconds {self.seconds:g} are too few for the demo; it needs at least {LEAST_SECONDS:g}.")

    @property
    def report(self) -> Path:
        return self.directory / "report.html"

    @property
    def journal(self) -> Path:
        return self.directory / "journal.db"

    @property
    def partitions(self) -> int:
        return 2 * self.max_executors

    @property
    def workload(self) -> str:
        center_s, sigma_s = 0.42 * self.seconds, 0.125 * self.seconds
        shape = f"base={self.base_rate_per_s:g},peak={self.peak_rate_per_s:g}"
        return f"gaussian:{shape},center={center_s:g}s,sigma={sigma_s:g}s"

    @property
    def goal(self) -> Objective:
        return parse_objective(self.objective).within(1, self.max_executors)

    @property
    def chosen_settings(self) -> Mapping[str, object]:
        return {**QUICK_SETTINGS.get(self.policy, {}), **self.settings}


@dataclass(frozen=True)
class DemoResult:
    plan: DemoPlan
    record: RunRecord
    times: MeasuredBatchTimes | None
    """Measured batch times."""
    comparison: Mapping[int, Summary]
    """The same load on fixed sizes, simulated with the measured times."""
    output: Mapping[str, int]
    """Records in the sink: total, distinct, missing, doubled."""
    journal: Path

    def to_json(self) -> dict[str, JSON]:
        run = {
            "engine": "spark",
            "headgate": __version__,
            "policy": self.plan.policy,
            "settings": dict(self.plan.chosen_settings),
            "objective": self.plan.objective,
            "workload": self.plan.workload,
            "seconds": self.plan.seconds,
        }
        return self.record.to_json(run) | {
            "output": dict(self.output),
            "fixed_sizes_simulated": {str(size): summary.to_json() for size, summary in self.comparison.items()},
        }


def run_demo(
    plan: DemoPlan,
    *,
    stage: Callable[[str], None],
    watcher: Watcher,
) -> DemoResult:
    """Run the demonstration; ``stage`` receives progress messages, ``watcher`` observations and decisions."""
    # Refuse wrong settings before a cluster is started.
    preview_policy(plan.policy, plan.goal, plan.chosen_settings)
    from headgate.apps.steady_job import SteadyJob
    from headgate.local.spark.cluster import LocalCluster
    from headgate.local.spark.interruption import Interruption

    journal = plan.journal
    journal.unlink(missing_ok=True)
    record = RunRecord(plan.goal)
    stage("starting a Spark cluster on this machine")
    with Interruption().watched() as interruption, LocalCluster(slots=plan.max_executors) as cluster:
        stage("starting the job's driver and its first executor")
        spark = cluster.session("headgate-demo", executors=1)
        with interruption.ends(spark):
            job = SteadyJob(
                cluster.directory / "job",
                plan.workload,
                plan.seconds,
                cost_s=plan.cost_s,
                trigger_interval_s=plan.trigger_interval_s,
                partitions=plan.partitions,
            )
            stage("warming up: a first batch loads classes and Python workers")
            job.warm_up(spark)
            query = job.start(spark)
            stage("running")
            with autoscale(
                spark,
                plan.goal,
                plan.policy,
                settings=plan.chosen_settings,
                interval=plan.interval_s,
                journal=journal,
                take_over=True,
            ) as autoscaler:
                autoscaler.watch(record)
                autoscaler.watch(watcher)
                if _ends_within(query, plan.seconds):
                    raise EngineError(f"the job ended by itself: {query.exception()}")
            stage("working off what is left, and counting the output")
            query.processAllAvailable()
            query.stop()
            output = job.check(spark)
            stage("stopping the job and the cluster")
    stage("comparing with fixed sizes")
    samples = (seen.samples[record.operator] for seen in record.observations if record.operator in seen.samples)
    times = fit_batch_times([batch for sample in samples for batch in sample.batches], tasks=plan.partitions)
    return DemoResult(
        plan=plan,
        record=record,
        times=times,
        comparison=_compare(plan, times),
        output={
            "records": output.records,
            "distinct": output.distinct,
            "missing": output.missing,
            "doubled": output.doubled,
        },
        journal=journal,
    )


def _ends_within(query: StreamingQuery, seconds: float) -> bool:
    """Wait for a query to end, and return whether it did; checked every second."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if query.awaitTermination(1):
            return True
    return False


def _compare(plan: DemoPlan, times: MeasuredBatchTimes | None) -> Mapping[int, Summary]:
    """Simulate the offered load on fixed sizes."""
    if times is None:
        return {}
    model = MicroBatch(
        plan.trigger_interval_s,
        times.overhead_s,
        partitions=plan.partitions,
        task_overhead_s=times.task_overhead_s,
        noise=times.noise,
    )
    return fixed_size_comparison(
        parse_workload(plan.workload),
        plan.seconds,
        range(1, plan.max_executors + 1),
        objective=plan.goal,
        service_rate_per_s=times.rate_per_s,
        model=model,
    )
