"""What is simulated: the contenders as they were measured, then every policy on the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from headgate.research.demeter.calibration import JobModel, calibrate
from headgate.research.demeter.job import MOST
from headgate.research.demeter.reading import APPS, MeasuredRun, read_runs
from headgate.research.demeter.running import Ran, play, run_policy

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


def carry_out(task: Task) -> Ran:
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
