"""demeter: published runs of four contenders on two Flink jobs, a simulator calibrated to them, and policies in it."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.lab.processes import in_processes
from headgate.lab.scenario import Outcome, Progress, mark_begin, scenario
from headgate.research.demeter.kept import KeptRuns
from headgate.research.demeter.matrix import carry_out, model_of, tasks_of
from headgate.research.demeter.reading import APPS, MeasuredRun, read_runs
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
def run(progress: Progress) -> Outcome:
    runs = read_runs()
    tasks = tasks_of(runs)
    kept = KeptRuns(runs)
    done = {task: ran for task in tasks if (ran := kept.get(task)) is not None}
    mark_begin(progress, len(done) / len(tasks))
    missing = [task for task in tasks if task not in done]
    for number, ran in in_processes(carry_out, missing):
        done[missing[number]] = ran
        kept.add(missing[number], ran)
        progress(len(done) / len(tasks))
    return outcome_of(runs, {task: done[task] for task in tasks})


def outcome_of(runs: Sequence[MeasuredRun], done: Done) -> Outcome:
    """The tables of runs that are done."""
    told = [
        ", ".join(f"{name} {value}" for name, value in model_of(app).to_json().items()) + "; by repeat 1."
        for app in APPS
    ]
    return Outcome(
        rows_of(runs, done),
        (*NOTES, *told, *verdicts(runs, done)),
        plots_of(runs, done),
        details=details_of(runs, done),
    )
