"""A Spark Streaming (DStream) job as an operator: the same executors and the same scaling, other readings.

DStreams are deprecated and still in Spark; azimi scales them. A listener tells of every batch: its records, how long it
waited and how long it took.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from headgate.core.errors import EngineGoneError, UnsupportedEngineError
from headgate.core.metrics import Observed
from headgate.core.types import Instant
from headgate.engines.spark.backend import spark_errors
from headgate.engines.spark.dstream_readings import Completed, DStreamReadings, Started, Submitted
from headgate.engines.spark.engine import ReadingSource, SparkEngine

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
        self.inbox: deque[Submitted | Started | Completed] | None = deque(maxlen=10_000)

    def onBatchSubmitted(self, batchSubmitted: Any) -> None:  # noqa: N803 - Spark calls it so
        info = batchSubmitted.batchInfo()
        self._put(Submitted(_batch_ms(info), self._now(), int(info.numRecords())))

    def onBatchStarted(self, batchStarted: Any) -> None:  # noqa: N803
        info = batchStarted.batchInfo()
        self._put(Started(_batch_ms(info), self._now(), max(0.0, info.schedulingDelay() / 1000)))

    def onBatchCompleted(self, batchCompleted: Any) -> None:  # noqa: N803
        info = batchCompleted.batchInfo()
        delay_s, took_s = max(0.0, info.schedulingDelay() / 1000), max(0.0, info.processingDelay() / 1000)
        self._put(Completed(_batch_ms(info), self._now(), int(info.numRecords()), delay_s, took_s))

    def _put(self, event: Submitted | Started | Completed) -> None:
        inbox = self.inbox
        if inbox is not None:
            inbox.append(event)


def _batch_ms(info: Any) -> int:
    return int(info.batchTime().milliseconds())
