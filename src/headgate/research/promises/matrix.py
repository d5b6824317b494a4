"""All runs of a matrix, several at a time, and the result of each policy at each level.

A policy that does not read the percentile of an objective behaves the same at every level, so it runs once and is
judged at all of them. Finished runs are cached, so an interrupted matrix continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.core.objective import LatencySlo
from headgate.core.types import JSON
from headgate.lab.run_cache import RunCache
from headgate.lab.scenario import Progress
from headgate.research.promises.runs import FIXED, DayRun, DayTask, clairvoyant_seconds, make_load, run_task

OURS = "autopilot"
CONTENDERS = (
    "reactive",
    "hpa",
    "ds2",
    "flink-autoscaler",
    "keda-lag",
    "trigger-ratio",
    "drain-time",
    "threshold",
)


@dataclass(frozen=True)
class Matrix:
    loads: Sequence[str]
    levels: Sequence[tuple[float, float]]
    """Percentiles and bounds in seconds."""
    startups_s: Sequence[float]
    seeds: Sequence[int] = (0,)
    contenders: Sequence[str] = CONTENDERS
    with_fixed: bool = True
    """Whether to search for the best fixed size, which takes longer than all policies together."""


@dataclass(frozen=True)
class Cell:
    """The result of a policy on a day at a level."""

    load: str
    seed: int
    kind: str
    chosen_on: bool
    percentile: float
    bound_s: float
    startup_s: float
    run: DayRun
    cost: float
    """Instance-seconds over those of the clairvoyant size."""

    @property
    def allowed_share(self) -> float:
        return LatencySlo(self.bound_s, self.percentile).allowed_share

    @property
    def objective(self) -> str:
        return f"p{self.percentile:g} < {self.bound_s:g}s"

    def to_json(self) -> dict[str, JSON]:
        return {
            "asked": self.objective,
            "startup_s": self.startup_s,
            "load": self.load,
            "day": self.seed,
            "kind": self.kind,
            "chosen_on": self.chosen_on,
            **self.run.to_json(),
            "cost": round(self.cost, 4),
        }


def run_cache(folder: Path | None = None) -> RunCache[DayTask, list[DayRun]]:
    """Return the cache of finished runs, which all matrices share."""
    return RunCache(
        "promises",
        run_task,
        asdict,
        to_json=lambda runs: [asdict(run) for run in runs],
        from_json=lambda runs: [DayRun(**run) for run in runs],
        folder=folder,
    )


def run_matrix(matrix: Matrix, progress: Progress, cache: RunCache[DayTask, list[DayRun]] | None = None) -> list[Cell]:
    """Run everything that is not cached, on all cores; the cells do not depend on the order in which runs end."""
    percentile = matrix.levels[0][0]
    bounds_s = list(dict.fromkeys(bound_s for _, bound_s in matrix.levels))
    days = [(load, seed) for load in matrix.loads for seed in matrix.seeds]
    ours = [
        DayTask(OURS, load, seed, bound_s, startup_s, level)
        for load, seed in days
        for level, bound_s in matrix.levels
        for startup_s in matrix.startups_s
    ]
    theirs = [
        DayTask(policy, load, seed, bound_s, startup_s, percentile)
        for policy in matrix.contenders
        for load, seed in days
        for bound_s in bounds_s
        for startup_s in matrix.startups_s
    ]
    fixed = [DayTask(FIXED, load, seed, bound_s, 0.0, percentile) for load, seed in days for bound_s in bounds_s]
    tasks = [*ours, *theirs, *(fixed if matrix.with_fixed else ())]
    done = (cache or run_cache()).run(tasks, progress)
    return [
        _cell(task, level, startup_s, run)
        for task in tasks
        for level, startup_s in _levels_of(task, matrix)
        for run in _chosen(done[task], LatencySlo(task.bound_s, level))
    ]


def _levels_of(task: DayTask, matrix: Matrix) -> list[tuple[float, float]]:
    """Return the percentiles and start-up times that a run is judged at."""
    if task.policy == OURS:
        return [(task.percentile, task.startup_s)]
    startups_s = matrix.startups_s if task.policy == FIXED else (task.startup_s,)
    return [
        (level, startup_s) for level, bound_s in matrix.levels if bound_s == task.bound_s for startup_s in startups_s
    ]


def _chosen(runs: Sequence[DayRun], slo: LatencySlo) -> list[DayRun]:
    """Return the run itself, or of fixed sizes the smallest that meets the objective, if any does."""
    if runs[0].policy != FIXED:
        return list(runs)
    return [run for run in runs if run.late_share <= slo.allowed_share][:1]


def _cell(task: DayTask, percentile: float, startup_s: float, found: DayRun) -> Cell:
    load = make_load(task.load, task.seed)
    cost = found.instance_seconds / clairvoyant_seconds(load, task.bound_s, startup_s)
    return Cell(task.load, task.seed, load.kind, load.chosen_on, percentile, task.bound_s, startup_s, found, cost)
