"""demeter: published runs of four contenders on two Flink jobs, a simulator calibrated to them, and policies in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headgate.lab.run_cache import RunCache
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.research.demeter.measured_runs import APPS, MeasuredRun, data_hash, read_runs
from headgate.research.demeter.simulated_runs import SimulatedRun, Task, model_of, run_task, tasks_of
from headgate.research.demeter.tables import Done, details_of, plots_of, rows_of, verdicts

NOTES = (
    "measured is from the published runs: the mean of TaskManagers, and the share of ten-second means of latency above "
    "10 s. A job that stands still reports none and is not late then; simulated seconds are counted likewise. "
    "late_records_pct counts every record, also those that came while the job stood still.",
    "simulated, sizes given: the sizes and restarts of a measured run on the simulated job, which tells what the model "
    "of the job is worth. simulated: a contender's policy with its settings of the experiment. policy: any policy on "
    "the same load, rescaled as Flink's reactive mode does, 1 to 24 TaskManagers.",
    "The model is made from repeat 1 alone. Every 45 minutes a TaskManager is cut off, as in the experiment. That a "
    "new one takes 15 s to join was not measured; it is assumed.",
    "demeter's TaskManagers are not all alike: it also changes their CPU, memory and slots. Its size is no size of "
    "ours.",
)


@scenario(
    "demeter",
    "Published runs of autoscalers on Flink: how well they are reproduced, and policies beside them.",
    resumes=True,
    takes_s=120.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    runs = read_runs()
    return outcome_of(runs, run_cache(runs).run(tasks_of(runs), progress))


def run_cache(runs: Sequence[MeasuredRun], folder: Path | None = None) -> RunCache[Task, SimulatedRun]:
    """The finished simulations for these data."""
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
    """The tables of runs that are done."""
    told = [
        ", ".join(f"{name} {value}" for name, value in model_of(app).to_json().items()) + "; by repeat 1."
        for app in APPS
    ]
    return ScenarioOutcome(
        rows_of(runs, done),
        (*NOTES, *told, *verdicts(runs, done)),
        plots_of(runs, done),
        details=details_of(runs, done),
    )
