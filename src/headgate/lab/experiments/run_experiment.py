"""Run an experiment on Spark: spread the cases that are missing, then aggregate all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError
from headgate.lab.experiments.model import ExperimentMatrix
from headgate.lab.experiments.parts import (
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
"""About what a session takes to start."""
STEP_S = 0.0006
"""About what a step of a simulated run takes on one core: all policies of the league, one with another. Some take ten
times as long as others."""


@dataclass(frozen=True)
class ExperimentPlan:
    """What to run, where."""

    experiment: ExperimentMatrix
    home: Path
    """The folder of the experiment file, in which the files that it names are."""
    out: LabFolder
    master: str = "local[*]"
    tasks: int | None = None
    """Into how many tasks it is cut; as many as suit where not given. No result depends on it."""


def require_spark() -> None:
    """One sentence about what is missing, before any work is done."""
    spark_home()
    java(needed_by="a lab run on Spark")


def expected_s(experiment: ExperimentMatrix, cores: int) -> float:
    """About how long an experiment takes, before anything is known of how it goes."""
    steps = sum(case.seconds / case.interval_s for case in experiment.cases())
    return SPARK_START_S + STEP_S * steps / min(cores, len(experiment))


def run_experiment(
    plan: ExperimentPlan, progress: Progress, told: Callable[[str], None] = lambda _: None
) -> list[RepeatGroup]:
    """Carry out the cases that are not in the folder yet, keep and give what all come to.

    The folder is made, or gone on with; ``told`` is given a sentence where it is gone on with.
    """
    require_spark()
    from headgate.engines.spark.spread import batch_session, spread, versions

    out, total = plan.out, len(plan.experiment)
    out.begin(plan.experiment, versions())
    done = set(read_parts(out.runs, repair=True).column("key").to_pylist())
    waiting = [packed(place, case) for place, case in enumerate(plan.experiment.cases()) if case.key not in done]
    before = total - len(waiting)
    if before:
        told(f"{before:,} of {total:,} runs are there already; {len(waiting):,} are to be done.")
    if not waiting and out.summary.is_file():
        return read_summary(out.summary)
    mark_begin(progress, before / total)
    forget_underway(out.runs)

    furthest = float(before)

    def watch() -> None:
        nonlocal furthest
        # Between two looks a run may count as under way and as written.
        seen = min(float(total), max(furthest, count_rows(out.runs) + runs_underway(out.runs)))
        if seen > furthest == before:
            mark_begin(progress, seen / total)  # The workers took their time to start.
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
