"""The task time of a query's newest batches, as the status store has it."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

from headgate.core.stage_work import StageWork

JOBS = 10
"""Newest jobs that count; a batch is one job or a few."""


def stage_work(context: Any, run_id: str, state_partitions: int) -> StageWork | None:
    """What the newest finished jobs of a query's run did; ``None`` where Spark does not know any more.

    Stages with as many tasks as there are state partitions keep the state, or stand behind the same shuffle. The stage
    that reads the source is no such one, though it may be as wide: it is the first of its job.
    """
    jobs = context.statusTracker().getJobIdsForGroup(run_id)
    newest = sorted((jobs[index] for index in range(len(jobs))), reverse=True)[:JOBS]
    store = context.statusStore()
    state_s, other_s, widest = 0.0, 0.0, 1
    for job in newest:
        try:
            ids = store.job(job).stageIds()
            stages = [store.lastStageAttempt(stage) for stage in sorted(ids.apply(one) for one in range(ids.size()))]
            told = [(int(stage.numTasks()), int(stage.executorRunTime()) / 1000) for stage in stages]
        except Py4JError:
            continue  # Only so many jobs and stages are kept.
        for index, (tasks, seconds) in enumerate(told):
            if index > 0 and tasks == state_partitions:
                state_s += seconds
            else:
                other_s += seconds
                widest = max(widest, tasks)
    return StageWork(state_partitions, state_s, widest, other_s) if state_s + other_s > 0 else None
