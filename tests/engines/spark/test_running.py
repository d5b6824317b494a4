"""How much of a running batch is done, by the tasks of its jobs."""

from __future__ import annotations

import pytest

from headgate.engines.spark.running import RunningBatch
from headgate.engines.spark.snapshots import Job


def job(number: int, done: int, tasks: int = 8) -> Job:
    return Job(number, "run", 0.0, tasks, done, tasks)


def test_nothing_is_done_before_a_job_is_seen() -> None:
    batch = RunningBatch()
    batch.follow(0, [])
    assert (batch.share_done, batch.is_through) == (0.0, False)


@pytest.mark.parametrize(
    ("case", "looks", "share", "through"),
    [
        ("tasks that have ended count", [[job(2, 2)]], 0.25, False),
        ("a job that is gone is done", [[job(2, 2)], []], 1.0, True),
        ("a task that is run again was done once", [[job(2, 4)], [job(2, 3)]], 0.5, False),
        ("fewer tasks than the batch before", [[job(2, 2, tasks=4)], []], 1.0, True),
        ("more jobs than the batch before", [[job(2, 8)], [job(3, 0)]], 0.5, False),
    ],
)
def test_what_is_done_is_told_by_the_tasks(case: str, looks: list[list[Job]], share: float, through: bool) -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    for jobs in looks:
        batch.follow(1, jobs)
    assert (batch.share_done, batch.is_through) == (share, through), case


def test_a_batch_of_two_jobs_is_half_done_after_the_first() -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    batch.follow(0, [job(2, 4)])
    batch.follow(1, [job(3, 4)])
    assert batch.share_done == 0.25
    batch.follow(1, [])
    assert (batch.share_done, batch.is_through) == (0.5, False)


def test_how_many_jobs_the_first_batch_has_is_not_known() -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    batch.follow(0, [])
    assert not batch.is_through
