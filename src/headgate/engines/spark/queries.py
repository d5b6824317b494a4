"""The streaming queries of an application, of all its sessions, as Spark knows them: read by py4j at each look.

Nothing is called back from Spark: a listener in Python costs the driver several per cent of a core at a batch a second.
Spark keeps the newest hundred progress events of each query, of which those are taken that are new.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.core.errors import UnsupportedEngineError
from headgate.core.types import Instant
from headgate.engines.spark.backend import (
    SparkBackend,
    context_of,
    files_per_batch,
    method_names,
    setting_of,
    source_of,
    spark_errors,
    unread_files,
)
from headgate.engines.spark.snapshots import Inside, Query, QueryProgress, QuerySource, SparkJob, WaitingFiles
from headgate.engines.spark.sources import first_offsets

OffsetTexts: TypeAlias = tuple[str | None, ...]
"""An offset as JSON for each source; ``None`` where there is none yet."""
_ROWS_TOGETHER = (
    (("InPandas", "InArrow", "ArrowEvalPython"), "spark.sql.execution.arrow.maxRecordsPerBatch", "10000"),
    (("Python",), "spark.sql.execution.python.udf.maxRecordsPerBatch", "100"),
)
"""Operators that get rows together and give them back so, the setting that says how many, and what holds in a Spark
that has no such setting: before 4.0, Python functions always got a hundred."""


class QueryHandle:
    """Looks at one run of a query."""

    def __init__(self, jvm: Any, session: Any, query: Any, run_id: str) -> None:
        self._jvm = jvm
        self._session = session
        self._query = query
        self._methods = method_names(query)
        self._run_id = run_id
        self._id = str(query.id().toString())
        self.name = str(query.name() or self._id[:8])
        self._interval_s = _trigger_interval_s(query)
        self.is_real_time = "RealTime" in str(query.trigger().getClass().getSimpleName())
        self._item = jvm.java.lang.reflect.Array.get
        self._sources: list[Any] = []
        self._set_up: tuple[QuerySource, ...] = ()
        self._first: dict[int, str | None] = {}
        self._rows_at_once: float | None = None
        self._seen: str | None = None
        self._planned: tuple[tuple[int, int], tuple[OffsetTexts, OffsetTexts, OffsetTexts]] | None = None

    def look(self, shift_s: float) -> Query | None:
        """The query now; ``None`` while it is still being set up. ``shift_s`` leads from wall time to the loop's."""
        context = context_of(self._query, self._methods)
        if context is None or not self._is_set_up():
            return None
        batch_id, triggered_ms = int(context.batchId()), int(context.currentTriggerStartTimestamp())
        start, end, latest = self._plan(context, (batch_id, triggered_ms))
        committed = self._texts(self._query.committedOffsets())
        if any(end) and end != committed:
            self._planned = (batch_id, triggered_ms), (start, end, latest)  # It does not change until it is done.
        # Read last: a batch that ends meanwhile is then reported as running for one look more, never lost.
        progresses = self._new_progresses(shift_s)
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
            start=start,
            end=end,
            latest=latest,
            committed=committed,
            progresses=progresses,
            files=self._files(shift_s),
            rows_at_once=self._find_rows_at_once(progresses),
        )

    # ------------------------------------------------------------------------------------------------- how it is set up

    def _is_set_up(self) -> bool:
        if not self._sources and (read := self._query.sources()) is not None:
            # One that is read at two places of a query, as by a self-join, is listed twice; offsets, progress and the
            # checkpoint's folders know it once, in the order of this.
            distinct = read.distinct()
            self._sources = [distinct.apply(index) for index in range(distinct.size())]
            self._set_up = self._read_set_up([int(distinct.indexOf(read.apply(place))) for place in range(read.size())])
        return bool(self._sources)

    def _read_set_up(self, places: Sequence[int]) -> tuple[QuerySource, ...]:
        """How each source was set up; ``places`` says which one is read at each place of the plan."""
        leaves = self._query.analyzedPlan().collectLeaves()
        streams = [leaf for index in range(leaves.size()) if (leaf := leaves.apply(index)).isStreaming()]
        found = [QuerySource(*source_of(leaf)) for leaf in streams]
        if len(found) != len(places):
            found = [QuerySource("unknown")] * len(places)  # Which of them is which is not known.
        return tuple(
            replace(
                found[places.index(index)],
                readers=places.count(index),
                files_per_batch=files_per_batch(source),
            )
            for index, source in enumerate(self._sources)
        )

    def _files(self, shift_s: float) -> tuple[WaitingFiles | None, ...]:
        """What waits at sources of files, as far as they were listed for the newest batch."""
        found: list[WaitingFiles | None] = []
        for set_up, source in zip(self._set_up, self._sources, strict=True):
            if set_up.files_per_batch is None or set_up.options.get("latestFirst", "false").lower() == "true":
                found.append(None)
                continue
            count, written_s = unread_files(source)
            found.append(WaitingFiles(count, None if written_s is None else written_s + shift_s))
        return tuple(found)

    def _find_rows_at_once(self, progresses: tuple[QueryProgress, ...]) -> float:
        """How many rows a task puts out at once, by the plan of a batch that has run."""
        if self._rows_at_once is None:
            if not any("addBatch" in progress.body["durationMs"] for progress in progresses):
                return math.inf
            self._rows_at_once = self._read_rows_at_once()
        return self._rows_at_once

    def _read_rows_at_once(self) -> float:
        if "ForeachBatchSink" in str(self._query.sink().toString()):
            return math.inf  # What is done there is up to its function.
        plan = str(self._query.lastExecution().executedPlan().toString())
        for words, setting, default in _ROWS_TOGETHER:
            if any(word in plan for word in words):
                return float(setting_of(self._query, setting, default))
        return 1.0

    # ---------------------------------------------------------------------------------------------------- how far it is

    def _plan(self, context: Any, key: tuple[int, int]) -> tuple[OffsetTexts, OffsetTexts, OffsetTexts]:
        """Where the newest batch begins and ends, and how far the sources had come when it was planned."""
        if self._planned is not None and self._planned[0] == key:
            return self._planned[1]
        start, end, latest = (
            self._texts(offsets) for offsets in (context.startOffsets(), context.endOffsets(), context.latestOffsets())
        )
        start = tuple(self._start(index, start[index], end[index]) for index in range(len(start)))
        return start, end, latest

    def _texts(self, offsets: Any) -> OffsetTexts:
        if len(self._sources) == 1:
            # The usual case, in fewer calls.
            return (str(offsets.values().mkString("")) or None,)
        found = (offsets.get(source) for source in self._sources)
        return tuple(str(offset.get().json()) if offset.isDefined() else None for offset in found)

    def _start(self, index: int, start: str | None, end: str | None) -> str | None:
        """Where a batch begins; of the very first one Spark does not tell it."""
        if start is not None or end is None or self._set_up[index].kind != "kafka":
            return start
        if index not in self._first:
            checkpoint = str(self._query.checkpointFile("sources"))
            self._first[index] = first_offsets(self._jvm, self._session, checkpoint, index)
        return self._first[index]

    def _new_progresses(self, shift_s: float) -> tuple[QueryProgress, ...]:
        last = self._query.lastProgress()
        newest = None if last is None else str(last.timestamp())
        if newest == self._seen:
            return ()
        recent = self._query.recentProgress()
        found: list[QueryProgress] = []
        for index in range(len(recent) - 1, -1, -1):
            progress = self._item(recent, index)
            # Batch ids repeat while a query is idle.
            timestamp = str(progress.timestamp())
            if timestamp == self._seen:
                break
            body = json.loads(progress.json())
            ended_s = _wall_s(timestamp) + body["durationMs"].get("triggerExecution", 0) / 1000
            found.append(QueryProgress(ended_s + shift_s, body))
        found.reverse()
        if found:
            self._seen = str(found[-1].body["timestamp"])
        return tuple(found)


def _wall_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _trigger_interval_s(query: Any) -> float:
    try:
        return float(query.trigger().intervalMs()) / 1000
    except Py4JError:
        return 0.0  # Continuous, once and available-now triggers have no interval.


MAX_STAGES = 20
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
        self._active_text = ""

    def refuse_real_time(self) -> None:
        """Refuse an application that runs a query in real-time mode, whether it counts or not."""
        with spark_errors("looking at the streaming queries"):
            self._find(lambda name: False)

    def look(self, counts: Callable[[str], bool]) -> list[Query]:
        """All queries that run now and count, by their names."""
        with spark_errors("looking at the streaming queries"):
            # One call to find out that they are the same ones as before, and in the same state.
            active_text = str(self._active.toString())
            if active_text != self._active_text:
                self._known = self._find(counts)
                self._active_text = active_text
            now, wall_s = self._now(), time.time()
            queries = [handle.look(now - wall_s) for handle in self._known.values()]
            return [query for query in queries if query is not None]

    def _find(self, counts: Callable[[str], bool]) -> dict[str, QueryHandle]:
        # Python would iterate over the map's values ten times as slowly.
        listed = self._list(self._active.elements())
        found: dict[str, QueryHandle] = {}
        for index in range(len(listed)):
            query = listed[index]
            run_id = str(query.runId().toString())
            handle = self._known.get(run_id) or QueryHandle(self._jvm, self._session, query, run_id)
            if handle.is_real_time:
                raise UnsupportedEngineError(
                    f"query {handle.name!r} runs in real-time mode, whose tasks live for minutes: with fewer slots "
                    "than tasks, or when an executor is drained, some stand still; give it a processing-time trigger, "
                    "or an application of its own of a fixed size."
                )
            if counts(handle.name):
                found[run_id] = handle
        return found

    def jobs(self, inside: Callable[[str], Inside]) -> list[SparkJob]:
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
    ) -> SparkJob:
        own = [active[stage] for stage in job["stageIds"] if stage in active]
        last = active.get(max(job["stageIds"], default=-1))
        group = job.get("jobGroup") or ""
        shift_s = self._now() - time.time()
        found = SparkJob(
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
        wanted, timed = inside(group), last["numCompleteTasks"]
        done = max(timed, self._done_tasks(last))
        # Only a job of one stage reads what it puts out.
        asks_rows = wanted.rows and len(job["stageIds"]) == 1 and done <= MOST_TASKS
        return replace(
            found,
            tasks=last["numTasks"],
            done_tasks=done,
            active_tasks=last["numActiveTasks"],
            running_s=self._running_s(last) if wanted.times else (),
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
        self._rows = {
            **{stage_key: rows for stage_key, rows in self._rows.items() if stage_key[0] > key[0] - MAX_STAGES},
            key: known,
        }
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
                return 0  # Spark retains a limited number of jobs and stages.
        return max(tasks, default=0)

    def _tasks(self, stage: int) -> int:
        info = self._tracker.getStageInfo(stage)
        return int(info.get().numTasks()) if info.isDefined() else 0
