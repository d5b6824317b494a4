"""One streaming query that is started, stopped between two batches, and started again with another plan."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.core.errors import EngineError, EngineGoneError, InputError, StateError
from headgate.engines.spark.backend import slots_per_executor, spark_errors
from headgate.engines.spark.query_plan import Plan, StageWork

__all__ = ["Build", "ManagedQuery", "StreamingQuery"]

Build = Callable[[SparkSession, Plan], DataStreamWriter]
"""Builds a query by a plan, and gives its writer without having started it."""

PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only store whose state can be repartitioned."""
LOOK_EVERY_S = 0.05
IDLE_LOOKS = 3
"""So many times in a row a query must be seen idle to count as between two batches."""
WAITING = "waitTillTime"
"""The method of Spark's clock in which the thread of a query waits for its next trigger."""
FRAMES = 8
"""Calls from the top of the stack among which that one is looked for."""


class ManagedQuery:
    """Starts and stops one query, whose progress lies in one checkpoint."""

    def __init__(self, spark: SparkSession, build: Build, checkpoint: str | Path) -> None:
        self._spark = spark
        self._build = build
        self._location = str(checkpoint)
        folder = local_path(checkpoint)
        self._checkpoint = None if folder is None else Checkpoint(folder)
        self._query: StreamingQuery | None = None
        self._first_batch_s: float | None = None

    @property
    def query(self) -> StreamingQuery | None:
        """The query, or the last one that there was."""
        return self._query

    @property
    def checkpoint(self) -> Checkpoint | None:
        """``None`` where it does not lie on this machine."""
        return self._checkpoint

    @property
    def slots_per_executor(self) -> int:
        return slots_per_executor(self._spark)

    def start(self, plan: Plan) -> None:
        """Build the query by a plan and start it."""
        self._refuse_if_gone()
        with self._configured(plan):
            writer = self._build(self._spark, plan)
            if not isinstance(writer, DataStreamWriter):
                raise InputError(
                    f"the function that builds the query gave {type(writer).__name__}; it must give the writer, "
                    "as df.writeStream is, without having started it."
                )
            self._query = writer.option("checkpointLocation", self._location).start()
            self._first_batch_s = None

    @contextmanager
    def _configured(self, plan: Plan) -> Iterator[None]:
        """A query keeps the settings that the session has when it is started; other queries keep theirs."""
        wanted = {PROVIDER_KEY: ROCKSDB}
        if plan.state_partitions is not None:
            wanted[PARTITIONS_KEY] = str(plan.state_partitions)
        before = {key: self._spark.conf.get(key, None) for key in wanted}
        try:
            for key, value in wanted.items():
                self._spark.conf.set(key, value)
            yield
        finally:
            for key, value_before in before.items():
                if value_before is None:
                    self._spark.conf.unset(key)
                else:
                    self._spark.conf.set(key, value_before)

    @property
    def is_running(self) -> bool:
        if self._query is None:
            return False
        with spark_errors("looking whether the query runs"):
            return bool(self._query.isActive)

    @property
    def failure(self) -> str | None:
        """Why it ended; ``None`` if nothing went wrong."""
        self._refuse_if_gone()
        error = None if self._query is None else self._query.exception()
        return None if error is None else str(error)

    @property
    def first_batch_s(self) -> float | None:
        """How long the first batch took since it was started last; ``None`` before that has ended."""
        if self._first_batch_s is None and self._query is not None:
            # The newest event tells of a batch or, some time after it, of none: it is looked at often enough.
            last = self._query.lastProgress
            took_ms = {} if last is None else last["durationMs"]
            self._first_batch_s = took_ms["triggerExecution"] / 1000 if "addBatch" in took_ms else None
        return self._first_batch_s

    def stage_work(self, state_partitions: int) -> StageWork | None:
        """Where the work of its newest batches was done."""
        if self._query is None or not self._query.isActive:
            return None
        with spark_errors("looking at the stages of the query"):
            return stage_work(self._spark.sparkContext._jsc.sc(), str(self._query.runId), state_partitions)

    # ----------------------------------------------------------------------------------------------- between batches

    def stop(self, within_s: float) -> bool:
        """Let the running batch end, and stop; whether that was possible within a time. It is stopped in any case.

        Spark's own ``stop`` interrupts the batch, which would then have to be run again. So the read
        limit of its sources is set to 0, and the query is stopped once it has found nothing to do.
        """
        query = self._query
        if query is None or not query.isActive:
            return self._is_settled
        jvm: Any = self._spark.sparkContext._jvm
        execution = _execution(query)
        gives_nothing = set_read_limit(jvm, execution, 0)
        is_idle = self._idles_within(query, execution, within_s, gives_nothing=gives_nothing)
        query.stop()
        return is_idle and self._is_settled

    def _idles_within(self, query: StreamingQuery, execution: Any, seconds: float, *, gives_nothing: bool) -> bool:
        """Wait until the query is between two batches, and will not begin another where sources give nothing more."""
        until_s = time.monotonic() + seconds
        idle_looks = 0
        while query.isActive and time.monotonic() < until_s:
            is_through = gives_nothing and not query.status["isDataAvailable"]
            idle = self._is_settled and (is_through or _waits(execution.queryExecutionThread()))
            idle_looks = idle_looks + 1 if idle else 0
            # At a first look it may be about to begin a batch that it planned before the limit was set.
            if idle_looks == IDLE_LOOKS:
                return True
            time.sleep(LOOK_EVERY_S)
        return not query.isActive

    @property
    def _is_settled(self) -> bool:
        """Whether no batch is left half done, as far as that can be seen."""
        return self._checkpoint is None or self._checkpoint.is_settled

    def set_cap(self, records: int) -> bool:
        """Let the next batches take at most so many records; ``False`` where it takes a restart to change that."""
        if self._query is None or not self._query.isActive:
            return False
        jvm: Any = self._spark.sparkContext._jvm
        return set_read_limit(jvm, _execution(self._query), records)

    def repartition(self, partitions: int) -> None:
        """Spread the state of the stopped query over so many partitions; also ends what was left half done."""
        manager = getattr(self._spark, "_streamingCheckpointManager", None)
        if manager is None:
            raise EngineError(
                f"Spark {self._spark.version} cannot repartition the state of a query; that came with 4.2."
            )
        try:
            manager.repartition(self._location, partitions)
        except (PySparkException, Py4JError) as error:
            raise EngineError(f"Spark could not repartition the state in {self._location}: {error}") from error

    def _refuse_if_gone(self) -> None:
        """Queries end with their session, as if somebody had stopped them."""
        context: Any = self._spark.sparkContext._jsc
        with spark_errors("asking whether it has stopped"):
            if context is None or bool(context.sc().isStopped()):
                raise EngineGoneError("the Spark session was stopped.")


def _execution(query: StreamingQuery) -> Any:
    """The object that runs the batches."""
    return query._jsq.streamingQuery()


def _waits(thread: Any) -> bool:
    """Whether the thread of a query is in the wait for its next trigger: a few calls below the top of its stack."""
    stack = thread.getStackTrace()
    return any(stack[index].getMethodName() == WAITING for index in range(min(len(stack), FRAMES)))


PARTITIONS_KEY = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint folder of one query; it need not exist yet."""

    path: Path

    @property
    def last_planned(self) -> int | None:
        """The number of the newest batch that was planned."""
        return _newest(self.path / "offsets")

    @property
    def last_committed(self) -> int | None:
        return _newest(self.path / "commits")

    @property
    def is_settled(self) -> bool:
        """Whether no batch is left half done."""
        return self.last_planned == self.last_committed

    @property
    def state_partitions(self) -> int | None:
        """Over how many partitions the newest batch that was planned spreads state; ``None`` before there is one."""
        newest = self.last_planned
        return None if newest is None else self._partitions_of(newest)

    @property
    def half_repartitioned(self) -> int | None:
        """How many partitions there were to be, if a change of their number was left half done."""
        planned, committed = self.last_planned, self.last_committed
        if planned is None or committed is None or planned != committed + 1:
            return None
        wanted = self._partitions_of(planned)
        return wanted if wanted != self._partitions_of(committed) else None

    def _partitions_of(self, batch: int) -> int | None:
        """The number of state partitions by the plan of a batch; its second line is the metadata."""
        file = self.path / "offsets" / str(batch)
        try:
            _, metadata, *_ = file.read_text(encoding="utf-8").splitlines()
            found = json.loads(metadata)["conf"].get(PARTITIONS_KEY)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"{file} is no plan of a batch as Spark writes it: {error}.") from error
        return None if found is None else int(found)


def local_path(checkpoint: str | Path) -> Path | None:
    """The folder of a checkpoint on this machine; ``None`` where it lies elsewhere, as ``s3a://…``."""
    parts = urlparse(str(checkpoint))
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else str(checkpoint))
    return None


def _newest(folder: Path) -> int | None:
    """The highest number that a file of a log has for a name."""
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=None)


_OF_PYTHON = "PythonStreamingSourceReadLimit"
_ROWS, _ALL = "ReadMaxRows", "ReadAllAvailable"


def set_read_limit(jvm: Any, execution: Any, records: int) -> bool:
    """Let the next batch take so many records from each source; whether that was possible, for all of them."""
    try:
        limits = execution.uniqueSources()
        sources = execution.sources()
        changed = limits
        for index in range(sources.size()):
            source = sources.apply(index)
            limit = _limit_like(jvm, limits.apply(source), records)
            if limit is None:
                return False
            changed = changed.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(changed)
    except (Py4JError, TypeError):
        return False  # This version of Spark keeps them elsewhere, or the query has ended.
    return True


def _limit_like(jvm: Any, current: Any, records: int) -> Any:
    """A limit of the same kind as the source has; ``None`` for a source that is not limited by records."""
    kind = str(current.getClass().getSimpleName())
    if kind == _OF_PYTHON:
        if json.loads(current.json())["_type"] not in (_ROWS, _ALL):
            return None
        wanted = json.dumps({"max_rows": records, "_type": _ROWS})
        return getattr(jvm, str(current.getClass().getName()))(wanted)
    if kind in (_ROWS, _ALL):
        return jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(records)
    return None


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
            stages = [
                store.lastStageAttempt(stage) for stage in sorted(ids.apply(index) for index in range(ids.size()))
            ]
            tasks_and_seconds = [(int(stage.numTasks()), int(stage.executorRunTime()) / 1000) for stage in stages]
        except Py4JError:
            continue  # Spark retains a limited number of jobs and stages.
        for index, (tasks, seconds) in enumerate(tasks_and_seconds):
            if index > 0 and tasks == state_partitions:
                state_s += seconds
            else:
                other_s += seconds
                widest = max(widest, tasks)
    return StageWork(state_partitions, state_s, widest, other_s) if state_s + other_s > 0 else None
