"""How much of a running batch is done, by the tasks that have ended. No JVM is needed here.

Only whole tasks count: what a running one has read runs ahead of what it has written by as much as a task. A batch may
be several jobs, one after the other (``foreachBatch``); how many tasks there will be is known from the batch before.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engines.spark.snapshots import Job


class RunningBatch:
    """Follows the jobs of one query's batches."""

    def __init__(self) -> None:
        self._batch_id: int | None = None
        self._tasks: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._expected = 0

    def follow(self, batch_id: int, jobs: Iterable[Job]) -> None:
        """Take in the jobs that run now for a batch."""
        if batch_id != self._batch_id:
            self._expected = sum(self._tasks.values()) or self._expected
            self._batch_id, self._tasks, self._done = batch_id, {}, {}
        running = {job.id: job for job in jobs}
        for job_id in self._tasks.keys() - running.keys():
            self._done[job_id] = self._tasks[job_id]  # It ran at the last look and does no more: it is done.
        for job in running.values():
            self._tasks[job.id], self._done[job.id] = job.tasks, job.done_tasks

    @property
    def share_done(self) -> float:
        """The share of the batch's records that is done, from 0 to 1."""
        total = max(self._expected, sum(self._tasks.values()))
        return min(1.0, sum(self._done.values()) / total) if total else 0.0
