"""The streaming queries of an application, of all its sessions, as Spark knows them: asked by py4j at each look.

Nothing is called back from Spark: a listener in Python costs the driver several per cent of a core at a batch a second.
Spark keeps the newest hundred progress events of each query, of which those are taken that are new.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.core.types import Instant
from headgate.engines.spark.backend import SparkBackend, spark_errors
from headgate.engines.spark.kafka import first_offsets
from headgate.engines.spark.snapshots import Job, Progress, Query, Source

MOST_TASKS = 32
"""Of a stage that runs more tasks at once, only so many are looked at: a tenth of a millisecond for each."""
_ROWS_TOGETHER = (
    (("InPandas", "InArrow", "ArrowEvalPython"), "spark.sql.execution.arrow.maxRecordsPerBatch"),
    (("Python",), "spark.sql.execution.python.udf.maxRecordsPerBatch"),
)
"""Operators that get rows together and give them back so, and the setting that says how many."""


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
        self._running_tasks = jvm.java.util.ArrayList()
        self._running_tasks.add(jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING)
        self._known: dict[str, _Handle] = {}
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

    def _find(self, counts: Callable[[str], bool]) -> dict[str, _Handle]:
        # Python would iterate over the map's values ten times as slowly.
        listed = self._list(self._active.elements())
        found: dict[str, _Handle] = {}
        for index in range(len(listed)):
            query = listed[index]
            run_id = str(query.runId().toString())
            handle = self._known.get(run_id) or _Handle(query, run_id, self._first_offsets)
            if counts(handle.name):
                found[run_id] = handle
        return found

    def _first_offsets(self, checkpoint: str, index: int) -> str | None:
        return first_offsets(self._jvm, self._session, checkpoint, index)

    def jobs(self, looks_inside: Callable[[str], bool]) -> list[Job]:
        """The jobs that run now, with the times of their tasks for groups whose tasks are to be looked into."""
        with spark_errors("looking at the running jobs"):
            jobs = self._backend.parsed(self._store.jobsList(self._running_jobs))
            stages = self._backend.parsed(self._store.activeStages()) if jobs else []
            active = {stage["stageId"]: stage for stage in stages}
            return [self._job(job, active, looks_inside) for job in jobs]

    def _job(
        self,
        job: Mapping[str, Any],
        active: Mapping[int, Mapping[str, Any]],
        looks_inside: Callable[[str], bool],
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
        timed = last["numCompleteTasks"]
        return replace(
            found,
            tasks=last["numTasks"],
            done_tasks=max(timed, self._done_tasks(last)),
            active_tasks=last["numActiveTasks"],
            running_s=self._running_s(last) if looks_inside(group) else (),
            mean_task_s=last["executorRunTime"] / 1000 / timed if timed else None,
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
        tasks = self._store.taskList(
            stage["stageId"], stage["attemptId"], 0, MOST_TASKS, self._none, True, self._running_tasks
        )
        now_s = time.time()
        launched_s = (tasks.apply(index).launchTime().getTime() / 1000 for index in range(tasks.size()))
        return tuple(max(0.0, now_s - at_s) for at_s in launched_s)

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


class _Handle:
    """One run of one query: what does not change is read once."""

    def __init__(self, query: Any, run_id: str, first_offsets: Callable[[str, int], str | None]) -> None:
        self._query = query
        self._first_offsets = first_offsets
        self._first: dict[int, str | None] = {}
        self._run_id = run_id
        self._id = query.id().toString()
        self.name = query.name() or self._id[:8]
        self._interval_s = _trigger_interval_s(query)
        self._set_up: tuple[Source, ...] | None = None
        self.rows_at_once = math.nan
        """Not known before a batch has run."""
        self._seen: str | None = None

    def look(self, shift_s: float) -> Query | None:
        """The query now; ``None`` while it is still being set up. ``shift_s`` leads from wall time to the loop's."""
        context = self._query.getLatestExecutionContext()
        sources = self._query.sources()
        if context is None or sources is None or not sources.size():
            return None
        if self._set_up is None:
            self._set_up = self._read_set_up(sources.size())
        batch_id = int(context.batchId())
        triggered_ms = int(context.currentTriggerStartTimestamp())
        start, end, latest, committed = (
            _offsets(offsets, sources, len(self._set_up))
            for offsets in (
                context.startOffsets(),
                context.endOffsets(),
                context.latestOffsets(),
                self._query.committedOffsets(),
            )
        )
        # Read last: a batch that ends meanwhile is then told of as running for one look more, never as lost.
        progresses = self._new_progresses(shift_s)
        if math.isnan(self.rows_at_once) and any("addBatch" in one.body["durationMs"] for one in progresses):
            self.rows_at_once = self._find_out_rows_at_once()
        if self._seen is None and not any((*start, *end, *latest, *committed)):
            return None  # Its first trigger is still finding out where it stands.
        return Query(
            id=self._id,
            run_id=self._run_id,
            name=self.name,
            trigger_interval_s=self._interval_s,
            sources=self._set_up,
            batch_id=batch_id,
            triggered_s=triggered_ms / 1000 + shift_s if triggered_ms > 0 else None,
            start=tuple(self._start(index, *bounds) for index, bounds in enumerate(zip(start, end, strict=True))),
            end=end,
            latest=latest,
            committed=committed,
            progresses=progresses,
            rows_at_once=math.inf if math.isnan(self.rows_at_once) else self.rows_at_once,
        )

    def _find_out_rows_at_once(self) -> float:
        """How many rows a task puts out at once, by the plan of a batch that has run."""
        if "ForeachBatchSink" in str(self._query.sink().toString()):
            return math.inf  # What is done there is up to its function.
        plan = str(self._query.lastExecution().executedPlan().toString())
        for words, setting in _ROWS_TOGETHER:
            if any(word in plan for word in words):
                return float(self._query.sparkSession().conf().get(setting))
        return 1.0

    def _start(self, index: int, start: str | None, end: str | None) -> str | None:
        """Where the batch begins; of the very first one Spark does not tell it."""
        if start is not None or end is None or self._set_up is None or self._set_up[index].kind != "kafka":
            return start
        if index not in self._first:
            self._first[index] = self._first_offsets(str(self._query.checkpointFile("sources")), index)
        return self._first[index]

    def _read_set_up(self, count: int) -> tuple[Source, ...]:
        leaves = self._query.analyzedPlan().collectLeaves()
        found = []
        for index in range(leaves.size()):
            leaf = leaves.apply(index)
            if leaf.getClass().getSimpleName() == "StreamingRelationV2":
                options = leaf.extraOptions().asCaseSensitiveMap()
                found.append(Source(str(leaf.sourceName()), {str(key): str(options[key]) for key in options}))
            elif leaf.isStreaming():
                found.append(Source(str(leaf.getClass().getSimpleName())))
        # A source that is used twice is one source; which of several it is then cannot be told.
        return tuple(found) if len(found) == count else (Source("unknown"),) * count

    def _new_progresses(self, shift_s: float) -> tuple[Progress, ...]:
        recent = self._query.recentProgress()
        found: list[Progress] = []
        newest: str | None = None
        for index in range(len(recent) - 1, -1, -1):
            # Batch ids repeat while a query is idle.
            timestamp = str(recent[index].timestamp())
            if timestamp == self._seen:
                break
            newest = newest or timestamp
            body = json.loads(recent[index].json())
            ended_s = _wall_s(timestamp) + body["durationMs"].get("triggerExecution", 0) / 1000
            found.append(Progress(ended_s + shift_s, body))
        self._seen = newest or self._seen
        return tuple(reversed(found))


def _offsets(offsets: Any, sources: Any, count: int) -> tuple[str | None, ...]:
    if count == 1:
        # The usual case, in fewer calls.
        return (str(offsets.values().mkString("")) or None,)
    found: list[str | None] = []
    for index in range(count):
        offset = offsets.get(sources.apply(index))
        found.append(str(offset.get().json()) if offset.isDefined() else None)
    return tuple(found)


def _wall_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _trigger_interval_s(query: Any) -> float:
    try:
        return float(query.trigger().intervalMs()) / 1000
    except Py4JError:
        return 0.0  # Continuous, once and available-now triggers have no interval.
