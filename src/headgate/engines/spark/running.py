"""How much of a running batch is done, by its tasks. No JVM is needed here.

What a running task has read runs ahead of what it has written by as much as the whole task, so it is not gone by: tasks
that have ended count, by their rows where partitions are uneven, and those that run count by the time they have been
running, as long as those took that have ended. An operator that puts its rows out in batches (Python ones do) shows
nothing before a batch of them is full.

A batch may be several jobs, one after the other (``foreachBatch``); how many is known from the batch before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from headgate.engines.spark.snapshots import Job

ALMOST = 0.98
"""A task that runs is not done, however long it has been running."""


class RunningBatch:
    """Follows the jobs of one query's batches."""

    def __init__(self) -> None:
        self._batch_id: int | None = None
        self._tasks: dict[int, int] = {}
        self._done: dict[int, float] = {}
        """The share of its rows that each job has put out."""
        self._least: dict[int, float] = {}
        """The same of the partition that is furthest behind."""
        self._expected_jobs: int | None = None
        """As many as the batch before had; ``None`` before there was one."""
        self._row_s: float | None = None
        """How long a row took a task, as seen last."""
        self.rows_per_task = 0.0

    def follow(self, batch_id: int, jobs: Iterable[Job], records: float = 0.0, rows_at_once: float = math.inf) -> None:
        """Take in the jobs that run now for a batch of so many records."""
        if batch_id != self._batch_id:
            self._expected_jobs = len(self._tasks) or self._expected_jobs
            self._batch_id, self._tasks, self._done, self._least = batch_id, {}, {}, {}
        running = {job.id: job for job in jobs}
        for job_id in self._tasks.keys() - running.keys():
            self._done[job_id] = self._least[job_id] = 1.0  # It ran at the last look and does no more: it is done.
        for job in running.values():
            self._tasks[job.id] = job.tasks
            self._follow_job(job, records, rows_at_once)

    def _follow_job(self, job: Job, records: float, rows_at_once: float) -> None:
        ended, left = job.done_tasks / job.tasks, job.tasks - job.done_tasks
        if job.done_rows is not None and records > 0:
            ended = min(1.0, job.done_rows / records)
        self.rows_per_task = records / job.tasks
        shares: list[float] = []
        if left:
            if job.mean_task_s is not None and ended > 0:
                self._row_s = job.mean_task_s * job.done_tasks / (ended * records) if records else None
            shares = self._shares(job, (1 - ended) * records / left, rows_at_once)
        put_out = ended + sum(shares) * (1 - ended) / max(1, left)
        # A task whose executor died is run again; what it had put out is not taken back.
        self._done[job.id] = max(put_out, self._done.get(job.id, 0.0))
        all_started = job.done_tasks + len(job.running_s) >= job.tasks
        self._least[job.id] = min(shares, default=0.0) if all_started else 0.0

    def _shares(self, job: Job, rows: float, rows_at_once: float) -> list[float]:
        """How much of its rows each running task has put out."""
        if not self._row_s or rows <= rows_at_once:
            return []
        shares = [min(ALMOST, elapsed_s / (self._row_s * rows)) for elapsed_s in job.running_s]
        seen = [math.floor(share * rows / rows_at_once + 1e-9) * rows_at_once / rows for share in shares]
        # Where there are more than were looked at, the others are taken to be like them.
        more = max(0, job.active_tasks - len(seen)) if seen else 0
        return seen + [sum(seen) / len(seen)] * more if more else seen

    @property
    def share_done(self) -> float:
        """The share of the batch's records that is done, from 0 to 1."""
        if not self._tasks:
            return 0.0
        tasks = sum(self._tasks.values())
        done = sum(self._tasks[job_id] * share for job_id, share in self._done.items())
        still_to_come = max(0, (self._expected_jobs or 1) - len(self._tasks)) * tasks / len(self._tasks)
        return min(1.0, done / (tasks + still_to_come))

    @property
    def least_done(self) -> float:
        """The share of its rows that is done of the partition that is furthest behind; 0 while any waits for a task."""
        if self._expected_jobs is None or len(self._tasks) < self._expected_jobs:
            return 0.0
        return min(self._least.values(), default=0.0)
