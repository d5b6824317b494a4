"""The streaming queries of an application, of all its sessions, as Spark knows them: asked by py4j at each look.

Nothing is called back from Spark: a listener in Python costs the driver several per cent of a core at a batch a second.
Spark keeps the newest hundred progress events of each query, of which those are taken that are new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.core.types import Instant
from headgate.engines.spark.backend import SparkBackend, spark_errors
from headgate.engines.spark.query_handle import QueryHandle
from headgate.engines.spark.snapshots import Inside, Job, Query

STAGES_KEPT = 20
"""Stages of which it is remembered what their tasks have read."""
MOST_TASKS = 32
"""Of a stage that runs more tasks at once, only so many are looked at: a tenth of a millisecond for each."""


class SparkQueries:
    """Looks at the queries of one application."""

    def __init__(self, spark: SparkSession, backend: SparkBackend, now: Callable[[], Instant]) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._backend = backend
        self._now = now
        self._session: Any = spark._jsparkSession
        self._active = self._session.sharedState().activeStreamingQueries()
        self._list = jvm.java.util.Collections.list
        self._store = backend.status_store
        self._tracker = backend.status_tracker
        self._scheduler = backend.task_scheduler
        self._none = backend.none
        self._running_jobs = jvm.java.util.ArrayList()
        self._running_jobs.add(jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        task_status = jvm.org.apache.spark.status.api.v1.TaskStatus
        self._running_tasks, self._done_ones = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
        self._running_tasks.add(task_status.RUNNING)
        self._done_ones.add(task_status.SUCCESS)
        self._rows: dict[tuple[int, int], dict[int, int]] = {}
        self._known: dict[str, QueryHandle] = {}
        self._told = ""

    def look(self, counts: Callable[[str], bool]) -> list[Query]:
        """All queries that run now and count, by their names."""
        with spark_errors("looking at the streaming queries"):
            # One call to find out that they are the same ones as before, and in the same state.
            told = str(self._active.toString())
            if told != self._told:
                self._known = self._find(counts)
                self._told = told
            now, wall_s = self._now(), time.time()
            looked = [handle.look(now - wall_s) for handle in self._known.values()]
            return [query for query in looked if query is not None]

    def _find(self, counts: Callable[[str], bool]) -> dict[str, QueryHandle]:
        # Python would iterate over the map's values ten times as slowly.
        listed = self._list(self._active.elements())
        found: dict[str, QueryHandle] = {}
        for index in range(len(listed)):
            query = listed[index]
            run_id = str(query.runId().toString())
            handle = self._known.get(run_id) or QueryHandle(self._jvm, self._session, query, run_id)
            if counts(handle.name):
                found[run_id] = handle
        return found

    def jobs(self, inside: Callable[[str], Inside]) -> list[Job]:
        """The jobs that run now; ``inside`` says what is worth asking of the tasks of a group."""
        with spark_errors("looking at the running jobs"):
            active = {stage["stageId"]: stage for stage in self._backend.parsed(self._store.activeStages())}
            # A job without any stage that runs is between two of them, or about to end.
            jobs = self._backend.parsed(self._store.jobsList(self._running_jobs)) if active else []
            return [self._job(job, active, inside) for job in jobs]

    def _job(
        self,
        job: Mapping[str, Any],
        active: Mapping[int, Mapping[str, Any]],
        inside: Callable[[str], Inside],
    ) -> Job:
        own = [active[stage] for stage in job["stageIds"] if stage in active]
        last = active.get(max(job["stageIds"], default=-1))
        group = job.get("jobGroup") or ""
        shift_s = self._now() - time.time()
        found = Job(
            id=job["jobId"],
            group=group,
            submitted_s=(job["submissionTime"] or 0) / 1000 + shift_s,
            # Before its last stage runs, none of a job's records is done.
            tasks=max(1, job["numTasks"] - job["numCompletedTasks"]),
            done_tasks=0,
            widest_tasks=max((stage["numTasks"] for stage in own), default=0),
        )
        if last is None:
            return found
        asked, timed = inside(group), last["numCompleteTasks"]
        done = max(timed, self._done_tasks(last))
        # Only a job of one stage reads what it puts out.
        asks_rows = asked.rows and len(job["stageIds"]) == 1 and done <= MOST_TASKS
        return replace(
            found,
            tasks=last["numTasks"],
            done_tasks=done,
            active_tasks=last["numActiveTasks"],
            running_s=self._running_s(last) if asked.times else (),
            mean_task_s=last["executorRunTime"] / 1000 / timed if timed else None,
            done_rows=self._done_rows(last) if asks_rows else None,
        )

    def _done_tasks(self, stage: Mapping[str, Any]) -> int:
        """Tasks of a stage that are done, as the scheduler knows.

        The status store takes in at most one change of a stage in a tenth of a second: of two tasks that end together
        it tells the second one when the next one ends.
        """
        found = self._scheduler.taskSetManagerForAttempt(stage["stageId"], stage["attemptId"])
        return int(found.get().tasksSuccessful()) if found.isDefined() else 0

    def _running_s(self, stage: Mapping[str, Any]) -> tuple[float, ...]:
        """How long the tasks of a stage have been running."""
        now_s = time.time()
        launched_s = (task.launchTime().getTime() / 1000 for task in self._listed(stage, self._running_tasks))
        return tuple(max(0.0, now_s - at_s) for at_s in launched_s)

    def _done_rows(self, stage: Mapping[str, Any]) -> float:
        """Rows that the tasks of a stage that are done have read."""
        key = (stage["stageId"], stage["attemptId"])
        known = self._rows.get(key, {})
        for task in self._listed(stage, self._done_ones):
            task_id = int(task.taskId())
            if task_id not in known:
                known[task_id] = int(task.taskMetrics().get().inputMetrics().recordsRead())
        self._rows = {**{one: rows for one, rows in self._rows.items() if one[0] > key[0] - STAGES_KEPT}, key: known}
        return float(sum(known.values()))

    def _listed(self, stage: Mapping[str, Any], statuses: Any) -> Iterator[Any]:
        tasks = self._store.taskList(stage["stageId"], stage["attemptId"], 0, MOST_TASKS, self._none, True, statuses)
        for index in range(tasks.size()):
            yield tasks.apply(index)

    def width(self, run_id: str) -> int:
        """The tasks of the widest stage of a query's newest job; 0 where Spark does not know any more."""
        with spark_errors("looking at a finished job"):
            jobs = self._tracker.getJobIdsForGroup(run_id)
            if not len(jobs):
                return 0
            newest = max(jobs[index] for index in range(len(jobs)))
            try:
                stages = self._backend.parsed(self._store.job(newest))["stageIds"]
                tasks = [self._tasks(stage) for stage in stages]
            except Py4JError:
                return 0  # Only so many jobs and stages are kept.
        return max(tasks, default=0)

    def _tasks(self, stage: int) -> int:
        info = self._tracker.getStageInfo(stage)
        return int(info.get().numTasks()) if info.isDefined() else 0
