"""demeter: published runs of four contenders on two Flink jobs, and policies in a simulator calibrated to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from headgate.core.types import JSON
from headgate.lab.run_cache import RunCache
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.page import Plot, axes, line
from headgate.research.demeter.calibration import REPEAT
from headgate.research.demeter.measured_runs import APPS, CONTENDERS, MeasuredRun, data_hash, read_runs
from headgate.research.demeter.simulated_runs import (
    OURS,
    SIZES_EVERY_S,
    SimulatedRun,
    SimulationTask,
    model_of,
    run_task,
    tasks_of,
)

NOTES = (
    "measured is from the published runs: the mean of TaskManagers, and the share of ten-second means of latency above "
    "10 s. A stopped job reports no latency and is not late then; simulated seconds are counted likewise. "
    "late_records_pct counts every record, including those that arrived while the job was stopped.",
    "simulated, sizes given: the sizes and restarts of a measured run on the simulated job, which tests the model "
    "of the job. simulated: a contender's policy with the settings of the experiment. policy: any policy on the same "
    "load, rescaled as in Flink's reactive mode, 1 to 24 TaskManagers.",
    "The model is calibrated on repeat 1 alone. Every 45 minutes a TaskManager is cut off, as in the experiment. That "
    "a new TaskManager takes 15 s to join is an assumption.",
    "demeter also changes the CPU, memory and slots of its TaskManagers, so its sizes cannot be compared with ours.",
)


@scenario(
    "demeter",
    "Published runs of autoscalers on Flink: how well they are reproduced, and other policies.",
    resumes=True,
    takes_s=120.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    runs = read_runs()
    return outcome_of(runs, run_cache(runs).run(tasks_of(runs), progress))


def run_cache(runs: Sequence[MeasuredRun], folder: Path | None = None) -> RunCache[SimulationTask, SimulatedRun]:
    """Return the cache of finished simulations of these data."""
    data = data_hash(runs)
    return RunCache(
        "demeter",
        run_task,
        lambda task: {**asdict(task), "data": data},
        to_json=asdict,
        from_json=lambda plain: SimulatedRun(**{**plain, "sizes": tuple(plain["sizes"])}),
        folder=folder,
    )


def outcome_of(runs: Sequence[MeasuredRun], done: Done) -> ScenarioOutcome:
    """Return the tables of finished runs."""
    models = [
        ", ".join(f"{name} {value}" for name, value in model_of(app).to_json().items()) + "; by repeat 1."
        for app in APPS
    ]
    return ScenarioOutcome(
        rows_of(runs, done),
        (*NOTES, *models, *verdicts(runs, done)),
        plots_of(runs, done),
        details=details_of(runs, done),
    )


Done = Mapping[SimulationTask, SimulatedRun]


def rows_of(runs: Sequence[MeasuredRun], done: Done) -> list[dict[str, JSON]]:
    """Return per job each measured run, its sizes replayed, the simulated contenders, and policies ordered by size."""
    rows: list[dict[str, JSON]] = []
    for app in APPS:
        for run in sorted((run for run in runs if run.app == app), key=_order):
            rows.append(
                _row(app, run.contender, "measured", str(run.repeat), run.mean_size, run.late_share, rescales=None)
            )
            rows += [
                _simulated(task, ran, "simulated, sizes given", str(run.repeat))
                for task, ran in done.items()
                if (task.app, task.name, task.kind, task.repeat) == (app, run.contender, "sizes", run.repeat)
            ]
        own = {task: ran for task, ran in done.items() if task.app == app}
        rows += [_simulated(task, ran, "simulated") for task, ran in own.items() if task.kind == "contender"]
        policies = sorted((ran.mean_size, task, ran) for task, ran in own.items() if task.kind == "policy")
        rows += [_simulated(task, ran, "policy", _level(task)) for _, task, ran in policies]
    return rows


def _level(task: SimulationTask) -> str:
    return f"p{task.percentile:g}"


def _order(run: MeasuredRun) -> tuple[int, int]:
    return CONTENDERS.index(run.contender) if run.contender in CONTENDERS else len(CONTENDERS), run.repeat


def _simulated(task: SimulationTask, ran: SimulatedRun, kind: str, repeat_or_level: str = "") -> dict[str, JSON]:
    row = _row(task.app, task.name, kind, repeat_or_level, ran.mean_size, ran.late_share, rescales=ran.rescales)
    return row | {"late_records_pct": round(100 * ran.late_records_share, 2)}


def _row(
    app: str, name: str, kind: str, repeat_or_level: str, mean_size: float, late_share: float, *, rescales: int | None
) -> dict[str, JSON]:
    return {
        "job": app,
        "who": name,
        "what": kind,
        "repeat_or_level": repeat_or_level,
        "mean_size": round(mean_size, 2),
        "late_pct": round(100 * late_share, 2),
        "late_records_pct": "",
        "rescales": "" if rescales is None else rescales,
    }


def verdicts(runs: Sequence[MeasuredRun], done: Done) -> list[str]:
    """Compare each simulated contender with the repeats that the model was not calibrated on, in a sentence."""
    sentences = []
    for task, ran in done.items():
        held_out = [run for run in runs if (run.app, run.contender) == (task.app, task.name) and run.repeat != REPEAT]
        if task.kind != "contender" or not held_out:
            continue
        size = float(np.mean([run.mean_size for run in held_out]))
        late = float(np.mean([run.late_share for run in held_out]))
        sentences.append(
            f"{task.app}, {task.name}: a mean size of {ran.mean_size:.2f} simulated against {size:.2f} measured "
            f"({100 * (ran.mean_size / size - 1):+.0f} %), {100 * ran.late_share:.2f} % late seconds against "
            f"{100 * late:.2f} % ({ran.late_share / late:.2f} times)."
        )
    return sentences


def plots_of(runs: Sequence[MeasuredRun], done: Done) -> list[Plot]:
    """Return a plot per job: sizes over time of HPA, measured and simulated, and of autopilot."""
    return [
        Plot(
            f"{app}: TaskManagers over time",
            [
                line(name, [hours for hours, _ in points], [size for _, size in points])
                for name, points in _lines(app, runs, done).items()
            ],
            axes("hours", "TaskManagers"),
        )
        for app in APPS
    ]


def details_of(runs: Sequence[MeasuredRun], done: Done) -> list[dict[str, JSON]]:
    """Return the lines of the plots as plain data."""
    return [
        {"app": app, "who": name, "line": points} for app in APPS for name, points in _lines(app, runs, done).items()
    ]


def _lines(app: str, runs: Sequence[MeasuredRun], done: Done) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        if (run.app, run.contender) == (app, "reactive") and run.repeat != REPEAT:
            steps = (run.t_s // SIZES_EVERY_S).astype(int)
            means = np.bincount(steps, np.nan_to_num(run.task_managers)) / np.bincount(steps)
            lines[f"HPA, measured ({run.repeat})"] = _line(list(means))
    for task, ran in done.items():
        if task.app == app and (task.kind == "contender" and task.name == "reactive"):
            lines["HPA, simulated"] = _line(ran.sizes)
        elif task.app == app and (task.kind, task.name) == ("policy", OURS):
            lines[f"autopilot, {_level(task)}, simulated"] = _line(ran.sizes)
    return lines


def _line(sizes: Sequence[float]) -> list[tuple[float, float]]:
    return [(round((index + 0.5) * SIZES_EVERY_S / 3600, 3), round(float(size), 2)) for index, size in enumerate(sizes)]
