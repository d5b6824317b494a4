"""How much of a running batch is done, by the tasks that have ended. No JVM is needed here.

Only whole tasks count: what a running one has read runs ahead of what it has written by as much as a task. A batch may
be several jobs, one after the other (``foreachBatch``); how many there will be is known from the batch before.
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
        self._expected_jobs: int | None = None
        """As many as the batch before had; ``None`` before there was one."""

    def follow(self, batch_id: int, jobs: Iterable[Job]) -> None:
        """Take in the jobs that run now for a batch."""
        if batch_id != self._batch_id:
            self._expected_jobs = len(self._tasks) or self._expected_jobs
            self._batch_id, self._tasks, self._done = batch_id, {}, {}
        running = {job.id: job for job in jobs}
        for job_id in self._tasks.keys() - running.keys():
            self._done[job_id] = self._tasks[job_id]  # It ran at the last look and does no more: it is done.
        for job in running.values():
            self._tasks[job.id] = job.tasks
            # A task whose executor died is run again; what it had put out is not taken back.
            self._done[job.id] = max(job.done_tasks, self._done.get(job.id, 0))

    @property
    def share_done(self) -> float:
        """The share of the batch's records that is done, from 0 to 1."""
        seen = len(self._tasks)
        if not seen:
            return 0.0
        tasks = sum(self._tasks.values())
        still_to_come = max(0, (self._expected_jobs or 1) - seen) * tasks / seen
        return min(1.0, sum(self._done.values()) / (tasks + still_to_come))

    @property
    def is_through(self) -> bool:
        """Whether all of its jobs have done all of their tasks, as far as is known of how many there are."""
        return self._expected_jobs is not None and self.share_done >= 1.0
