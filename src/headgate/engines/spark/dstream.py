"""A Spark Streaming (DStream) job as an operator: the same executors and the same scaling, other readings.

DStreams are deprecated and still in Spark; azimi scales them. A listener tells of every batch: its records, how long it
waited and how long it took.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from headgate.core.errors import EngineGoneError, UnsupportedEngineError
from headgate.core.metrics import Observed
from headgate.core.types import Batch, Instant, Sample
from headgate.engines.spark.backend import spark_errors
from headgate.engines.spark.engine import ReadingSource, SparkEngine
from headgate.engines.spark.executors import ExecutorHistory, WarmUp


@dataclass(frozen=True, slots=True)
class Submitted:
    """A batch was formed."""

    batch_ms: int
    """The time that the batch is called by."""
    at_s: Instant
    records: int


@dataclass(frozen=True, slots=True)
class Started:
    """A batch's turn has come."""

    batch_ms: int
    at_s: Instant
    scheduling_delay_s: float


@dataclass(frozen=True, slots=True)
class CompletedBatch:
    """A batch is done."""

    batch_ms: int
    at_s: Instant
    records: int
    scheduling_delay_s: float
    processing_time_s: float

    @property
    def started_s(self) -> Instant:
        return self.at_s - self.processing_time_s


class DStreamReadings:
    """Follows the batches of one streaming context, whose batch interval is in seconds."""

    def __init__(self, batch_interval_s: float, late_after_s: float | None = None) -> None:
        self._interval_s = batch_interval_s
        self._late_after_s = late_after_s
        # As for queries: waiting for a trigger that is itself too long says nothing of the size.
        self._excused_s = batch_interval_s if late_after_s is not None and batch_interval_s >= late_after_s else 0.0
        self._waiting: dict[int, Submitted] = {}
        self._running: Started | None = None
        self._newest_records: int | None = None
        """Of the batch that was formed last."""
        self._counts_records = False
        self._arrived = self._done = self._late = 0.0
        self._ended: list[CompletedBatch] = []
        self._batches: tuple[Batch, ...] = ()
        self._boundary = (0.0, 0.0)
        self._ended_s: Instant | None = None
        self._warm_up = WarmUp()

    def observed(self, now: Instant) -> Mapping[tuple[str, str], float]:
        """Nothing: observations are of data frames."""
        return {}

    def on_event(self, event: Submitted | Started | CompletedBatch) -> None:
        match event:
            case Submitted():
                self._waiting[event.batch_ms] = event
                self._newest_records = event.records
                self._arrived += event.records
                self._counts_records |= event.records > 0
            case Started():
                self._running = event
            case CompletedBatch():
                if self._waiting.pop(event.batch_ms, None) is None:
                    self._arrived += event.records  # It was formed before anybody looked.
                self._running = None
                self._counts_records |= event.records > 0
                self._done += event.records
                self._ended.append(event)

    def update(self, executors: ExecutorHistory, ready: int) -> None:
        """Take in the executors there were while batches ended."""
        batches = []
        for event in self._ended:
            # A batch without records warms up nothing; where records are not counted, any batch may have some.
            has_worked = bool(event.records) or not self._counts_records
            batch = self._warm_up.mark(self._batch(event), executors, ready, has_worked=has_worked)
            batches.append(batch)
            self._late += batch.late or 0.0
            self._ended_s = batch.ended_s
        self._ended = []
        self._batches = tuple(batches)
        executors.on_batches(batches)
        if batches or not self._waiting:
            self._boundary = (executors.busy_s, executors.available_s)

    def sample(self, operator: str, now: Instant, slots_per_instance: int) -> Sample | None:
        """The state now; ``None`` before anything is known."""
        if self._ended_s is None and not self._waiting:
            return None
        formed_s = min((batch.at_s for batch in self._waiting.values()), default=None)
        waited_s = 0.0 if formed_s is None else now - formed_s + self._interval_s - self._excused_s
        waiting = sum(batch.records for batch in self._waiting.values())
        known = self._counts_records
        return Sample(
            operator=operator,
            at_s=now,
            arrived=self._arrived if known else None,
            done=self._done if known else None,
            late=self._late if known and self._late_after_s is not None else None,
            busy_s=self._boundary[0],
            available_s=self._boundary[1],
            batches=self._batches,
            backlog=float(waiting) if known else None,
            latency_s=waited_s,
            running_s=None if self._running is None else now - self._running.at_s,
            batch_ended_s=self._ended_s,
            input_rate_per_s=self._rate_per_s(),
            trigger_interval_s=self._interval_s,
            warming=self._warm_up.warming,
        )

    def _rate_per_s(self) -> float | None:
        """Records that arrive per second, which is known interval by interval."""
        known = self._counts_records and self._newest_records is not None
        return (self._newest_records or 0) / self._interval_s if known else None

    def _batch(self, event: CompletedBatch) -> Batch:
        oldest_s = event.started_s - event.scheduling_delay_s - self._interval_s
        late: float | None = None
        if self._late_after_s is not None:
            overdue_s = event.at_s - self._late_after_s - self._excused_s - oldest_s
            late = event.records * min(1.0, max(0.0, overdue_s / self._interval_s))
        return Batch(
            started_s=event.started_s,
            ended_s=event.at_s,
            records=float(event.records),
            oldest_s=min(oldest_s + self._excused_s, event.started_s),
            late=late,
            trigger_interval_s=self._interval_s,
        )


__all__ = ["DStreamEngine", "StreamingContext", "open_engine"]


def open_engine(job: SparkSession | StreamingContext, **options: Any) -> SparkEngine:
    """The engine for a session with streaming queries, or for a streaming context."""
    return DStreamEngine(job, **options) if isinstance(job, StreamingContext) else SparkEngine(job, **options)


class DStreamEngine(SparkEngine):
    """Observes and resizes the executors of one streaming context, started or yet to be started."""

    def __init__(
        self,
        context: StreamingContext,
        *,
        operator: str = "job",
        take_over: bool | None = False,
        drain_timeout_s: float = 30.0,
        now: Callable[[], Instant] = time.time,
        observed: Mapping[str, Observed] | None = None,
        queries: Sequence[str] | None = None,
        late_after_s: float | None = None,
    ) -> None:
        if queries:
            raise UnsupportedEngineError(
                f"queries {', '.join(queries)} are of data frames, which a streaming context does not have."
            )
        if observed:
            raise UnsupportedEngineError(
                f"metrics {', '.join(sorted(observed))} are observations of data frames, which a streaming context "
                "does not have; give them as callables."
            )
        own = context.sparkContext.getConf().get("spark.streaming.dynamicAllocation.enabled", "false") == "true"
        if own and take_over is not None:
            raise UnsupportedEngineError(
                "Spark Streaming's own dynamic allocation is on and would work against Headgate; "
                "set spark.streaming.dynamicAllocation.enabled=false."
            )
        self._context = context
        super().__init__(
            SparkSession(context.sparkContext),
            operator=operator,
            take_over=take_over,
            drain_timeout_s=drain_timeout_s,
            now=now,
            late_after_s=late_after_s,
        )
        self._listen()

    def _make_readings(self, queries: Sequence[str] | None, late_after_s: float | None) -> ReadingSource:
        with spark_errors("asking for the batch interval"):
            interval_ms = self._context._jssc.ssc().graph().batchDuration().milliseconds()
        self._batches = _BatchListener(self._now)
        self._batch_readings = DStreamReadings(interval_ms / 1000, late_after_s)
        return self._batch_readings

    def _listen(self) -> None:
        with spark_errors("adding a streaming listener"):
            jvm: Any = self._context.sparkContext._jvm
            api = jvm.org.apache.spark.streaming.api.java
            self._wrapper = api.JavaStreamingListenerWrapper(api.PythonStreamingListenerWrapper(self._batches))
            self._context._jssc.addStreamingListener(self._wrapper)

    def _let_go(self) -> None:
        self._batches.inbox = None
        with spark_errors("removing the streaming listener"):
            self._context._jssc.ssc().removeStreamingListener(self._wrapper)

    def _look(self, now: Instant, ready: int) -> None:
        with spark_errors("asking for the state of the streaming context"):
            if str(self._context._jssc.getState()) == "STOPPED":
                raise EngineGoneError("the streaming context has stopped.")
        inbox = self._batches.inbox
        while inbox:
            self._batch_readings.on_event(inbox.popleft())
        self._batch_readings.update(self._executors, ready)


class _BatchListener(StreamingListener):
    """Keeps what Spark reports until the engine takes it in."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        super().__init__()
        self._now = now
        self.inbox: deque[Submitted | Started | CompletedBatch] | None = deque(maxlen=10_000)

    def onBatchSubmitted(self, batchSubmitted: Any) -> None:  # noqa: N803 - Spark calls it so
        info = batchSubmitted.batchInfo()
        self._put(Submitted(_batch_ms(info), self._now(), int(info.numRecords())))

    def onBatchStarted(self, batchStarted: Any) -> None:  # noqa: N803
        info = batchStarted.batchInfo()
        self._put(Started(_batch_ms(info), self._now(), max(0.0, info.schedulingDelay() / 1000)))

    def onBatchCompleted(self, batchCompleted: Any) -> None:  # noqa: N803
        info = batchCompleted.batchInfo()
        delay_s, took_s = max(0.0, info.schedulingDelay() / 1000), max(0.0, info.processingDelay() / 1000)
        self._put(CompletedBatch(_batch_ms(info), self._now(), int(info.numRecords()), delay_s, took_s))

    def _put(self, event: Submitted | Started | CompletedBatch) -> None:
        inbox = self.inbox
        if inbox is not None:
            inbox.append(event)


def _batch_ms(info: Any) -> int:
    return int(info.batchTime().milliseconds())
