"""Rows and plots of what was measured and what was simulated, kept apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.core.types import JSON
from headgate.render.plots import Plot
from headgate.research.demeter.calibration import REPEAT
from headgate.research.demeter.measured_runs import APPS, CONTENDERS, MeasuredRun
from headgate.research.demeter.simulated_runs import OURS, SIZES_EVERY_S, SimulatedRun, Task

Done = Mapping[Task, SimulatedRun]


def rows_of(runs: Sequence[MeasuredRun], done: Done) -> list[dict[str, JSON]]:
    """Per job: each measured run, its sizes on the simulated job, the contenders simulated, and policies by size."""
    rows: list[dict[str, JSON]] = []
    for app in APPS:
        for run in sorted((one for one in runs if one.app == app), key=_order):
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
        rows += [_simulated(task, ran, "policy", _asked(task)) for _, task, ran in policies]
    return rows


def _asked(task: Task) -> str:
    return f"p{task.percentile:g}"


def _order(run: MeasuredRun) -> tuple[int, int]:
    return CONTENDERS.index(run.contender) if run.contender in CONTENDERS else len(CONTENDERS), run.repeat


def _simulated(task: Task, ran: SimulatedRun, kind: str, told: str = "") -> dict[str, JSON]:
    row = _row(task.app, task.name, kind, told, ran.mean_size, ran.late_share, rescales=ran.rescales)
    return row | {"late_records_pct": round(100 * ran.late_records_share, 2)}


def _row(
    app: str, name: str, kind: str, told: str, mean_size: float, late_share: float, *, rescales: int | None
) -> dict[str, JSON]:
    return {
        "job": app,
        "who": name,
        "what": kind,
        "repeat_or_level": told,
        "mean_size": round(mean_size, 2),
        "late_pct": round(100 * late_share, 2),
        "late_records_pct": "",
        "rescales": "" if rescales is None else rescales,
    }


def verdicts(runs: Sequence[MeasuredRun], done: Done) -> list[str]:
    """How near the simulated contenders are to the repeats that nothing was chosen on, in a sentence each."""
    told = []
    for task, ran in done.items():
        shown = [run for run in runs if (run.app, run.contender) == (task.app, task.name) and run.repeat != REPEAT]
        if task.kind != "contender" or not shown:
            continue
        size = float(np.mean([run.mean_size for run in shown]))
        late = float(np.mean([run.late_share for run in shown]))
        told.append(
            f"{task.app}, {task.name}: a mean size of {ran.mean_size:.2f} simulated against {size:.2f} measured "
            f"({100 * (ran.mean_size / size - 1):+.0f} %), {100 * ran.late_share:.2f} % late seconds against "
            f"{100 * late:.2f} % ({ran.late_share / late:.2f} times)."
        )
    return told


def plots_of(runs: Sequence[MeasuredRun], done: Done) -> list[Plot]:
    """Sizes over time of a measured and a simulated contender, and of autopilot, per job."""
    return [
        Plot(
            f"{app}: TaskManagers over time",
            [
                {"type": "scatter", "mode": "lines", "name": name, "x": [h for h, _ in line], "y": [y for _, y in line]}
                for name, line in _lines(app, runs, done).items()
            ],
            {"xaxis": {"title": {"text": "hours"}}, "yaxis": {"title": {"text": "TaskManagers"}}},
        )
        for app in APPS
    ]


def details_of(runs: Sequence[MeasuredRun], done: Done) -> list[dict[str, JSON]]:
    """The lines of the plots, as plain data."""
    return [{"app": app, "who": name, "line": line} for app in APPS for name, line in _lines(app, runs, done).items()]


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
            lines[f"autopilot, {_asked(task)}, simulated"] = _line(ran.sizes)
    return lines


def _line(sizes: Sequence[float]) -> list[tuple[float, float]]:
    return [(round((index + 0.5) * SIZES_EVERY_S / 3600, 3), round(float(size), 2)) for index, size in enumerate(sizes)]
