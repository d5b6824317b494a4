"""The simulated runs: policies and measured sequences of sizes on the simulated job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from headgate.core.course import above, span_s
from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.policies.frame.base import Context
from headgate.research.demeter.calibration import DEPLOYMENTS, JobModel, calibrate
from headgate.research.demeter.job import MOST, ModelledFlinkJob
from headgate.research.demeter.measured_runs import APPS, BOUND_S, MeasuredRun, read_runs, restarts_of
from headgate.runtime.assembly import wire
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.summary import RunRecord
from headgate.simulation.batch_job import OPERATOR
from headgate.simulation.engine import SimulatedEngine

INTERVAL_S = 15.0
"""The interval of Kubernetes' autoscaler, used for all policies."""
STARTUP_S = 15.0
"""How long a TaskManager takes to join: an assumption, see the notes."""
SIZES_EVERY_S = 300.0


@dataclass(frozen=True)
class SimulatedRun:
    """The figures of a simulated run."""

    mean_size: float
    late_share: float
    """The share of the seconds in which the job was running and its output was late."""
    late_records_share: float
    rescales: int
    sizes: tuple[float, ...]
    """The mean of each ``SIZES_EVERY_S``."""

    def to_json(self) -> dict[str, JSON]:
        return {
            "mean_size": round(self.mean_size, 2),
            "late_pct": round(100 * self.late_share, 2),
            "late_records_pct": round(100 * self.late_records_share, 2),
            "rescales": self.rescales,
        }


def run_policy(
    policy: str,
    model: JobModel,
    deployment: str,
    *,
    percentile: float = 95.0,
    settings: Mapping[str, object] | None = None,
    size: int | None = None,
    seconds: float | None = None,
) -> SimulatedRun:
    """Run a policy over the whole load, or a fixed ``size``."""
    bounds = (1, MOST) if size is None else (size, size)
    objective = Objective(LatencySlo(bound_s=BOUND_S, percentile=percentile), *bounds)
    job = ModelledFlinkJob(model, deployment, size or MOST)
    engine = SimulatedEngine(job, startup_s=STARTUP_S)
    chosen = policy_with_files(policy, Context(objective, engine.topology(), 0), settings)
    loop = wire(engine, chosen, engine, engine_name=engine.name, metrics={"cpu_load": job.cpu_load}, resumes=False)
    record = RunRecord(objective)
    loop.watchers.append(record)
    until_s = job.seconds if seconds is None else min(seconds, job.seconds)
    for cycle in range(math.ceil(until_s / INTERVAL_S)):
        engine.advance(cycle * INTERVAL_S)
        loop.tick()
    engine.advance(until_s)
    changes = sum(decision.verdicts[OPERATOR].change != 0 for decision in record.decisions)
    return _summarise(job, engine.sizes(OPERATOR)[:, [0, 1, 2]], changes)


def replay_sizes(run: MeasuredRun, model: JobModel, deployment: str) -> SimulatedRun:
    """Replay the sizes and restarts of a measured run, which tests the model of the job alone."""
    restarts = [restart for restart in restarts_of(run) if not restart.is_failure]
    first = restarts[0].before if restarts else round(run.mean_size)
    job = ModelledFlinkJob(model, deployment, min(MOST, first))
    spans, from_s = [], 0.0
    for restart in restarts:
        if restart.from_s >= job.seconds:
            break
        job.advance(restart.from_s)
        spans.append((from_s, restart.from_s, job.ready(OPERATOR)))
        from_s = restart.from_s
        if restart.after == job.ready(OPERATOR):
            job.restart()
        else:
            job.resize(OPERATOR, min(MOST, restart.after))
    job.advance(job.seconds)
    spans.append((from_s, job.seconds, job.ready(OPERATOR)))
    return _summarise(job, np.array(spans, dtype=np.float64), len(restarts))


def _summarise(job: ModelledFlinkJob, sizes: FloatArray, changes: int) -> SimulatedRun:
    course = job.course()
    weights = sizes[:, 1] - sizes[:, 0]
    return SimulatedRun(
        float(np.average(sizes[:, 2], weights=weights)),
        _late_share(above(course.waits, BOUND_S) if course.waits is not None else np.zeros((0, 2)), job),
        course.late_share(BOUND_S) or 0.0,
        changes,
        _means(sizes, job.now_s),
    )


def _late_share(late: FloatArray, job: ModelledFlinkJob) -> float:
    """Return the share of late seconds like the measurement: a stopped job reports nothing and is not late."""
    still = np.array(job.standstills, dtype=np.float64).reshape(-1, 2)
    still_s = span_s(still, 0.0, job.now_s)
    together_s = span_s(np.concatenate([late, still]), 0.0, job.now_s)
    return (together_s - still_s) / (job.now_s - still_s)


def _means(sizes: FloatArray, until_s: float) -> tuple[float, ...]:
    at_s = np.arange(0.0, until_s + 1, SIZES_EVERY_S)
    times_s = np.concatenate([[0.0], sizes[:, 1]])
    total = np.concatenate([[0.0], np.cumsum((sizes[:, 1] - sizes[:, 0]) * sizes[:, 2])])
    return tuple(float(round(mean_size, 2)) for mean_size in np.diff(np.interp(at_s, times_s, total)) / SIZES_EVERY_S)


Settings = Mapping[str, object]
HPA_AS_MEASURED: Settings = MappingProxyType({"metric": "cpu_load", "target": 0.35})
OPERATOR_AS_MEASURED: Settings = MappingProxyType(
    {
        "metrics_window_s": 60,
        "stabilization_interval_s": 120,
        "utilization_target": 0.35,
        "utilization_boundary": 0.15,
        "restart_time_s": 60,
        "catch_up_duration_s": 300,
    }
)
"""Both come from the experiment's own files; settings that are not in them have their defaults."""
DEPLOYMENT_OF = {contender: deployment for deployment, contender in DEPLOYMENTS.items()}
"""The deployment of each contender whose TaskManagers were all alike."""
SIMULATED_AS: Mapping[str, tuple[str, Settings]] = MappingProxyType(
    {
        "baseline": ("static", {}),
        "reactive": ("hpa", HPA_AS_MEASURED),
        "operator": ("flink-autoscaler", OPERATOR_AS_MEASURED),
    }
)
OURS = "autopilot"
AUTOPILOT_LEVELS: Mapping[str, tuple[float, ...]] = MappingProxyType({"ADS": (95.0, 98.0, 99.0), "CARS": (93.0, 95.0)})
"""The percentiles of autopilot's objectives: the common one, and one that is about as late as the smallest of the
published contenders: stricter on ADS, laxer on CARS."""
OTHERS = ("reactive", "hpa", "ds2", "flink-autoscaler", "keda-lag", "trigger-ratio", "drain-time", "threshold")
"""Run with the defaults of their sources; the target of ``hpa`` is 70 % of the busy time."""


@dataclass(frozen=True, order=True)
class SimulationTask:
    """A simulated run: the sizes of a measured run (``repeat`` above 0), a contender with its settings, or a policy."""

    app: str
    name: str
    kind: str
    """``sizes``, ``contender`` or ``policy``."""
    repeat: int = 0
    percentile: float = 95.0


def tasks_of(runs: Sequence[MeasuredRun]) -> list[SimulationTask]:
    replayed = [
        SimulationTask(run.app, run.contender, "sizes", run.repeat) for run in runs if run.contender in DEPLOYMENT_OF
    ]
    contenders = [SimulationTask(app, name, "contender") for app in APPS for name in SIMULATED_AS]
    ours = [
        SimulationTask(app, OURS, "policy", percentile=level)
        for app, levels in AUTOPILOT_LEVELS.items()
        for level in levels
    ]
    return [*ours, *(SimulationTask(app, name, "policy") for app in APPS for name in OTHERS), *contenders, *replayed]


@cache
def model_of(app: str) -> JobModel:
    return calibrate(app, read_runs())


def run_task(task: SimulationTask) -> SimulatedRun:
    model = model_of(task.app)
    if task.kind == "sizes":
        own = (task.app, task.name, task.repeat)
        run = next(run for run in read_runs() if (run.app, run.contender, run.repeat) == own)
        return replay_sizes(run, model, DEPLOYMENT_OF[task.name])
    if task.kind == "contender":
        policy, settings = SIMULATED_AS[task.name]
        size = MOST if task.name == "baseline" else None
        return run_policy(policy, model, DEPLOYMENT_OF[task.name], settings=settings, size=size)
    # Flink's reactive mode has the shortest of the measured pauses.
    return run_policy(task.name, model, "reactive", percentile=task.percentile)
