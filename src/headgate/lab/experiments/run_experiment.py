"""Run an experiment on Spark: spread the cases that are missing, then aggregate all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError
from headgate.lab.experiments.model import ExperimentMatrix
from headgate.lab.experiments.results import (
    LabFolder,
    count_rows,
    forget_underway,
    packed,
    read_parts,
    runs_underway,
    work_in,
)
from headgate.lab.experiments.summary import RepeatGroup, groups_by_sql, read_summary, write_summary
from headgate.lab.scenario import Progress, mark_begin
from headgate.local.machine import java, spark_home

SPARK_START_S = 8.0
"""Approximate start-up time of a session."""
STEP_S = 0.0006
"""Approximate time of a simulated step on one core, over the policies of the league; some take ten times as long."""


@dataclass(frozen=True)
class ExperimentPlan:
    """An experiment with where and how it runs."""

    experiment: ExperimentMatrix
    home: Path
    """The folder of the experiment file and of the files that it names."""
    out: LabFolder
    master: str = "local[*]"
    tasks: int | None = None
    """Number of Spark tasks; chosen automatically where not given. No result depends on it."""


def require_spark() -> None:
    """Raise an error if Spark or Java is missing, before any work is done."""
    spark_home()
    java(needed_by="a lab run on Spark")


def expected_s(experiment: ExperimentMatrix, cores: int) -> float:
    """Return the approximate time of an experiment, before it starts."""
    steps = sum(case.seconds / case.interval_s for case in experiment.cases())
    return SPARK_START_S + STEP_S * steps / min(cores, len(experiment))


def run_experiment(
    plan: ExperimentPlan, progress: Progress, report: Callable[[str], None] = lambda _: None
) -> list[RepeatGroup]:
    """Run the cases that are not in the folder yet; write and return the groups of all.

    An existing folder is resumed; ``report`` then receives a sentence.
    """
    require_spark()
    from headgate.engines.spark.spread import batch_session, spread, versions

    out, total = plan.out, len(plan.experiment)
    out.begin(plan.experiment, versions())
    done = set(read_parts(out.runs, repair=True).column("key").to_pylist())
    waiting = [packed(place, case) for place, case in enumerate(plan.experiment.cases()) if case.key not in done]
    before = total - len(waiting)
    if before:
        report(f"{before:,} of {total:,} runs are there already; {len(waiting):,} are to be done.")
    if not waiting and out.summary.is_file():
        return read_summary(out.summary)
    mark_begin(progress, before / total)
    forget_underway(out.runs)

    furthest = float(before)

    def watch() -> None:
        nonlocal furthest
        # A run that is being written may count twice or not at all.
        seen = min(float(total), max(furthest, count_rows(out.runs) + runs_underway(out.runs)))
        if seen > furthest == before:
            mark_begin(progress, seen / total)  # The workers have only now started.
        elif seen > furthest:
            progress(seen / total)
        furthest = seen

    with batch_session(plan.master, f"headgate lab {plan.experiment.name}", out.log) as session:
        mark_begin(progress, before / total)
        if waiting:
            spread(
                session,
                waiting,
                work_in(plan.home, out.runs),
                watch=watch,
                tasks=plan.tasks,
            )
        there = read_parts(out.runs).num_rows
        if there < total:
            raise EngineError(
                f"{there:,} of {total:,} runs came back to {out.runs}; on a cluster, all workers must reach "
                "that folder."
            )
        groups = groups_by_sql(session, out.runs)
    write_summary(out.summary, groups)
    progress(1.0)
    return groups
