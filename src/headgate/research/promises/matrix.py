"""All the runs of a matrix, several at a time, and what each level got from each policy.

A policy that does not read the percentile of an objective makes the same run whichever is asked, so it is run once and
judged by all of them. What was done is kept, and not done again after an interruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headgate.core.objective import LatencySlo
from headgate.core.types import JSON
from headgate.lab.processes import in_processes
from headgate.lab.scenario import Progress, mark_begin
from headgate.research.promises.cells import BOUNDS, Run, clairvoyant_seconds, run
from headgate.research.promises.kept import KeptRuns
from headgate.research.promises.loads import SERVICE_RATE_PER_S, make_load

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
FIXED = "best-fixed"
"""The smallest size that keeps what is asked and never changes, known afterwards: no policy."""


@dataclass(frozen=True)
class Matrix:
    loads: Sequence[str]
    levels: Sequence[tuple[float, float]]
    """Percentiles and bounds in seconds."""
    startups_s: Sequence[float]
    seeds: Sequence[int] = (0,)
    contenders: Sequence[str] = CONTENDERS
    with_fixed: bool = True
    """Whether the best fixed size is looked for, which takes longer than all policies together."""


@dataclass(frozen=True)
class Cell:
    """What one policy delivered of one level."""

    load: str
    seed: int
    kind: str
    chosen_on: bool
    percentile: float
    bound_s: float
    startup_s: float
    run: Run
    cost: float
    """Instance-seconds over those of the clairvoyant."""

    @property
    def allowed_share(self) -> float:
        return LatencySlo(self.bound_s, self.percentile).allowed_share

    @property
    def asked(self) -> str:
        return f"p{self.percentile:g} < {self.bound_s:g}s"

    def to_json(self) -> dict[str, JSON]:
        return {
            "asked": self.asked,
            "startup_s": self.startup_s,
            "load": self.load,
            "day": self.seed,
            "kind": self.kind,
            "chosen_on": self.chosen_on,
            **self.run.to_json(),
            "cost": round(self.cost, 4),
        }


@dataclass(frozen=True, order=True)
class _Task:
    policy: str
    load: str
    seed: int
    bound_s: float
    startup_s: float
    percentile: float
    size: int | None = None


def run_matrix(matrix: Matrix, progress: Progress, kept: KeptRuns | None = None) -> list[Cell]:
    """Run everything that is not kept, on all cores but the threads of each: the same cells whatever the order."""
    kept = kept or KeptRuns()
    percentile = matrix.levels[0][0]
    bounds_s = list(dict.fromkeys(bound_s for _, bound_s in matrix.levels))
    days = [(load, seed) for load in matrix.loads for seed in matrix.seeds]
    ours = [
        _Task(OURS, load, seed, bound_s, startup_s, level)
        for load, seed in days
        for level, bound_s in matrix.levels
        for startup_s in matrix.startups_s
    ]
    theirs = [
        _Task(policy, load, seed, bound_s, startup_s, percentile)
        for policy in matrix.contenders
        for load, seed in days
        for bound_s in bounds_s
        for startup_s in matrix.startups_s
    ]
    fixed = [_Task(FIXED, load, seed, bound_s, 0.0, percentile) for load, seed in days for bound_s in bounds_s]
    tasks = [*ours, *theirs, *(fixed if matrix.with_fixed else ())]
    done = {task: runs for task in tasks if (runs := kept.get(asdict(task))) is not None}
    mark_begin(progress, len(done) / len(tasks))
    missing = [task for task in tasks if task not in done]
    for number, runs in in_processes(_carry_out, missing):
        done[missing[number]] = runs
        kept.add(asdict(missing[number]), runs)
        progress(len(done) / len(tasks))
    return [
        _cell(task, level, startup_s, found)
        for task in tasks
        for level, startup_s in _judged_by(task, matrix)
        for found in _found(done[task], LatencySlo(task.bound_s, level))
    ]


def _judged_by(task: _Task, matrix: Matrix) -> list[tuple[float, float]]:
    """The percentiles and start-up times for which a run stands."""
    if task.policy == OURS:
        return [(task.percentile, task.startup_s)]
    startups_s = matrix.startups_s if task.policy == FIXED else (task.startup_s,)
    return [
        (level, startup_s) for level, bound_s in matrix.levels if bound_s == task.bound_s for startup_s in startups_s
    ]


def _found(runs: Sequence[Run], slo: LatencySlo) -> list[Run]:
    """The run itself; of fixed sizes the smallest that keeps what is asked, and nothing where none does."""
    if runs[0].policy != FIXED:
        return list(runs)
    return [one for one in runs if one.late_share <= slo.allowed_share][:1]


def _cell(task: _Task, percentile: float, startup_s: float, found: Run) -> Cell:
    load = make_load(task.load, task.seed)
    cost = found.instance_seconds / clairvoyant_seconds(load, task.bound_s, startup_s)
    return Cell(task.load, task.seed, load.kind, load.chosen_on, percentile, task.bound_s, startup_s, found, cost)


def _carry_out(task: _Task) -> list[Run]:
    load = make_load(task.load, task.seed)
    slo = LatencySlo(bound_s=task.bound_s, percentile=task.percentile)
    if task.policy == FIXED:
        return _fixed_sizes(task, slo)
    return [run(task.policy, load, slo, startup_s=task.startup_s)]


def _fixed_sizes(task: _Task, slo: LatencySlo) -> list[Run]:
    """Sizes that never change, from the first that keeps up in the mean to the first that makes nothing late."""
    load = make_load(task.load, task.seed)
    found: list[Run] = []
    for size in range(max(1, int(load.rates_per_s.mean() / SERVICE_RATE_PER_S)), BOUNDS[1] + 1):
        tried = run("static", load, slo, startup_s=0.0, size=size)
        found.append(Run(FIXED, tried.late_share, tried.instance_seconds, 0.0, 0, tried.latency_p95_s))
        if tried.late_share == 0:
            break
    return found
