"""How much of a running batch is done, by the tasks of its jobs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headgate.engines.spark.query_readings import RunningBatch
from headgate.engines.spark.snapshots import SparkJob


def job(number: int, done: int, tasks: int = 8) -> SparkJob:
    return SparkJob(number, "run", 0.0, tasks, done, tasks)


def test_nothing_is_done_before_a_job_is_seen() -> None:
    batch = RunningBatch()
    batch.follow(0, [])
    assert (batch.share_done, batch.least_done) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("case", "looks", "share", "least"),
    [
        ("tasks that have ended count", [[job(2, 2)]], 0.25, 0.0),
        ("a job that is gone is done", [[job(2, 2)], []], 1.0, 1.0),
        ("a task that is run again was done once", [[job(2, 4)], [job(2, 3)]], 0.5, 0.0),
        ("fewer tasks than the batch before", [[job(2, 2, tasks=4)], []], 1.0, 1.0),
        ("more jobs than the batch before", [[job(2, 8)], [job(3, 0)]], 0.5, 0.0),
    ],
)
def test_tasks_give_the_share_that_is_done(case: str, looks: list[list[SparkJob]], share: float, least: float) -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    for jobs in looks:
        batch.follow(1, jobs)
    assert (batch.share_done, batch.least_done) == (share, least), case


def test_a_batch_of_two_jobs_is_half_done_after_the_first() -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    batch.follow(0, [job(2, 4)])
    batch.follow(1, [job(3, 4)])
    assert batch.share_done == 0.25
    batch.follow(1, [])
    assert (batch.share_done, batch.least_done) == (0.5, 0.0)


def test_how_many_jobs_the_first_batch_has_is_not_known() -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    batch.follow(0, [])
    assert batch.least_done == 0


@pytest.mark.parametrize(
    ("case", "rows_at_once", "done", "running_s", "tasks_done", "least"),
    [
        # 800 rows in 8 tasks, which take 10 s each.
        ("row by row", 1, 2, (5.0, 2.0), 2.7, 0.0),
        ("all have started", 1, 6, (5.0, 2.0), 6.7, 0.2),
        ("longer than any took", 1, 6, (50.0, 2.0), 7.18, 0.2),
        ("forty rows at once", 40, 6, (5.0, 2.0), 6.4, 0.0),
        ("all rows at once", 100, 6, (5.0, 2.0), 6, 0.0),
        ("not known how many", math.inf, 6, (5.0, 2.0), 6, 0.0),
    ],
)
def test_tasks_that_run_count_by_their_time_as_far_as_their_rows_are_put_out(
    case: str, rows_at_once: float, done: int, running_s: tuple[float, ...], tasks_done: float, least: float
) -> None:
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    within = replace(job(2, done), active_tasks=2, running_s=running_s, mean_task_s=10.0)
    batch.follow(1, [within], 800.0, rows_at_once)
    assert batch.share_done == pytest.approx(tasks_done / 8), case
    assert batch.least_done == pytest.approx(least), case


def test_the_first_tasks_of_a_batch_take_as_long_as_those_of_the_batch_before() -> None:
    batch = RunningBatch()
    batch.follow(0, [replace(job(1, 4), mean_task_s=10.0)], 800.0, 1)
    batch.follow(1, [replace(job(2, 0), active_tasks=2, running_s=(4.0, 4.0))], 1600.0, 1)
    assert batch.share_done == pytest.approx(2 * 0.2 / 8), "twice the rows, 20 s each"


def test_tasks_that_were_not_read_are_like_the_others() -> None:
    batch = RunningBatch()
    many = replace(job(1, 20, tasks=100), active_tasks=50, running_s=(5.0,) * 10, mean_task_s=10.0)
    batch.follow(0, [many], 10_000.0, 1)
    assert batch.share_done == pytest.approx((20 + 50 / 2) / 100)
    assert batch.least_done == 0


def test_tasks_of_uneven_partitions_count_by_their_rows() -> None:
    """Seven of eight tasks are done, which have read 400 of 1,000 rows."""
    batch = RunningBatch()
    batch.follow(0, [job(1, 4)])
    large = replace(job(2, 7), active_tasks=1, done_rows=400.0)
    batch.follow(1, [large], 1000.0)
    assert batch.share_done == pytest.approx(0.4)
    # Those took 4 s for 57 rows each; the large one has been running for half of what its 600 rows take.
    batch.follow(1, [replace(large, running_s=(21.0,), mean_task_s=4.0)], 1000.0, 1)
    assert batch.share_done == pytest.approx(0.7)
    assert batch.least_done == pytest.approx(0.5)
