"""The simulated runs: which there are, and how a policy or a measured sequence of sizes is run on the simulated job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from headgate.core.course import above, span_s
from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.policies.frame.base import Context
from headgate.research.demeter.calibration import JobModel, calibrate
from headgate.research.demeter.job import MOST, FlinkJob
from headgate.research.demeter.measured_runs import APPS, BOUND_S, MeasuredRun, read_runs, restarts_of
from headgate.runtime.assembly import wire
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.summary import RunRecord
from headgate.simulation.batch_job import OPERATOR
from headgate.simulation.engine import SimulatedEngine

INTERVAL_S = 15.0
"""How often Kubernetes' autoscaler decides; the others do, too."""
STARTUP_S = 15.0
"""How long a TaskManager takes to join; not measured, see the notes."""
SIZES_EVERY_S = 300.0


@dataclass(frozen=True)
class SimulatedRun:
    """What a simulated run came to."""

    mean_size: float
    late_share: float
    """Share of the seconds in which the job did anything and what came out was late."""
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
    """Let a policy size the job for the length of the load; a fixed ``size`` where one is given."""
    bounds = (1, MOST) if size is None else (size, size)
    objective = Objective(LatencySlo(bound_s=BOUND_S, percentile=percentile), *bounds)
    job = FlinkJob(model, deployment, size or MOST)
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
    changes = sum(one.verdicts[OPERATOR].change != 0 for one in record.decisions)
    return _ran(job, engine.sizes(OPERATOR)[:, [0, 1, 2]], changes)


def play(run: MeasuredRun, model: JobModel, deployment: str) -> SimulatedRun:
    """Let the job have the sizes and restarts of a measured run: what is left is the model of the job."""
    restarts = [one for one in restarts_of(run) if not one.is_failure]
    first = restarts[0].before if restarts else round(run.mean_size)
    job = FlinkJob(model, deployment, min(MOST, first))
    spans, from_s = [], 0.0
    for one in restarts:
        if one.from_s >= job.seconds:
            break
        job.advance(one.from_s)
        spans.append((from_s, one.from_s, job.ready(OPERATOR)))
        from_s = one.from_s
        if one.after == job.ready(OPERATOR):
            job.restart()
        else:
            job.resize(OPERATOR, min(MOST, one.after))
    job.advance(job.seconds)
    spans.append((from_s, job.seconds, job.ready(OPERATOR)))
    return _ran(job, np.array(spans, dtype=np.float64), len(restarts))


def _ran(job: FlinkJob, sizes: FloatArray, changes: int) -> SimulatedRun:
    course = job.course()
    weights = sizes[:, 1] - sizes[:, 0]
    return SimulatedRun(
        float(np.average(sizes[:, 2], weights=weights)),
        _late_share(above(course.waits, BOUND_S) if course.waits is not None else np.zeros((0, 2)), job),
        course.late_share(BOUND_S) or 0.0,
        changes,
        _means(sizes, job.now_s),
    )


def _late_share(late: FloatArray, job: FlinkJob) -> float:
    """As it was measured: a job that stands still tells nothing, and so is not late then."""
    still = np.array(job.standstills, dtype=np.float64).reshape(-1, 2)
    still_s = span_s(still, 0.0, job.now_s)
    together_s = span_s(np.concatenate([late, still]), 0.0, job.now_s)
    return (together_s - still_s) / (job.now_s - still_s)


def _means(sizes: FloatArray, until_s: float) -> tuple[float, ...]:
    at_s = np.arange(0.0, until_s + 1, SIZES_EVERY_S)
    times_s = np.concatenate([[0.0], sizes[:, 1]])
    total = np.concatenate([[0.0], np.cumsum((sizes[:, 1] - sizes[:, 0]) * sizes[:, 2])])
    return tuple(float(round(one, 2)) for one in np.diff(np.interp(at_s, times_s, total)) / SIZES_EVERY_S)


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
"""Both are the settings of the experiment's own files, the autoscaler's others its defaults."""
DEPLOYMENT_OF: Mapping[str, str] = MappingProxyType(
    {"baseline": "fixed", "reactive": "reactive", "operator": "operator"}
)
"""How the contenders ran whose TaskManagers were all alike."""
SIMULATED_AS: Mapping[str, tuple[str, Settings]] = MappingProxyType(
    {
        "baseline": ("static", {}),
        "reactive": ("hpa", HPA_AS_MEASURED),
        "operator": ("flink-autoscaler", OPERATOR_AS_MEASURED),
    }
)
OURS = "autopilot"
AUTOPILOT_LEVELS: Mapping[str, tuple[float, ...]] = MappingProxyType({"ADS": (95.0, 98.0, 99.0), "CARS": (93.0, 95.0)})
"""The percentiles that autopilot is asked for: that of all, and one that is about as late as the smallest of the
published contenders: a stricter one on ADS, and a laxer one on CARS."""
OTHERS = ("reactive", "hpa", "ds2", "flink-autoscaler", "keda-lag", "trigger-ratio", "drain-time", "threshold")
"""With the defaults of their sources; ``hpa`` is asked for 70 % of the busy time."""


@dataclass(frozen=True, order=True)
class Task:
    """One simulated run: the sizes of a measured one (``repeat`` above 0), a contender as it was set, or a policy."""

    app: str
    name: str
    kind: str
    """``sizes``, ``contender`` or ``policy``."""
    repeat: int = 0
    percentile: float = 95.0


def tasks_of(runs: Sequence[MeasuredRun]) -> list[Task]:
    played = [Task(run.app, run.contender, "sizes", run.repeat) for run in runs if run.contender in DEPLOYMENT_OF]
    contenders = [Task(app, name, "contender") for app in APPS for name in SIMULATED_AS]
    ours = [Task(app, OURS, "policy", percentile=level) for app, levels in AUTOPILOT_LEVELS.items() for level in levels]
    return [*ours, *(Task(app, name, "policy") for app in APPS for name in OTHERS), *contenders, *played]


@cache
def model_of(app: str) -> JobModel:
    return calibrate(app, read_runs())


def run_task(task: Task) -> SimulatedRun:
    model = model_of(task.app)
    if task.kind == "sizes":
        own = (task.app, task.name, task.repeat)
        run = next(one for one in read_runs() if (one.app, one.contender, one.repeat) == own)
        return play(run, model, DEPLOYMENT_OF[task.name])
    if task.kind == "contender":
        policy, settings = SIMULATED_AS[task.name]
        size = MOST if task.name == "baseline" else None
        return run_policy(policy, model, DEPLOYMENT_OF[task.name], settings=settings, size=size)
    # Rescaled as Flink's reactive mode does, which takes the shortest pause of those that were measured.
    return run_policy(task.name, model, "reactive", percentile=task.percentile)
