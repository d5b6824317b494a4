"""One Spark application as an operator that is scaled by its executors, from inside its driver, without changing Spark.

Readings come from a streaming listener and from the status store; sizes are set through the scheduler's own allocation
client. The engine owns the target: Spark replaces executors that die up to it, and what is above it is drained. An
executor is removed by decommissioning it, so that it finishes its tasks and hands over its blocks; one that has not
left after ``drain_timeout_s`` is killed. Closing the engine leaves the job running at its size.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headgate.core.errors import EngineError
from headgate.core.metrics import Observed
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Instances, Instant, Observation, Outcome, Receipt, Sample
from headgate.engines.spark_backend import Executor, SparkBackend, spark_errors
from headgate.engines.spark_metrics import SPARK_METRICS, SparkMetrics
from headgate.engines.spark_readings import Readings

if TYPE_CHECKING:
    from pyspark.streaming import StreamingContext

__all__ = ["SPARK_METRICS", "SparkEngine", "SparkSession", "application_id", "application_name", "least_useful"]

UTILIZATION_OVER_S = 10.0
"""Busy time is counted when tasks end, so it is averaged over about this long."""


class ReadingSource(Protocol):
    """Makes one reading of the whole application from what its streaming reports."""

    @property
    def observed(self) -> Mapping[tuple[str, str], float]:
        """The newest numbers that the job computes itself, by observation and column."""
        ...

    def on_executors(self, joined_s: Iterable[Instant], left_s: Iterable[Instant]) -> None: ...

    def sample(self, operator: str, now: Instant, utilization: float | None) -> Sample | None: ...


class SparkEngine:
    """Observes and resizes the executors of one Spark application; the whole application is one operator."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        operator: str = "job",
        take_over: bool = False,
        drain_timeout_s: float = 30.0,
        now: Callable[[], Instant] = time.time,
        observed: Mapping[str, Observed] | None = None,
        queries: Sequence[str] | None = None,
        late_after_s: float | None = None,
    ) -> None:
        """``observed`` names numbers that the job computes with ``df.observe``, for those who subscribe to them."""
        self._metrics = SparkMetrics(observed)
        self._spark = spark
        self._operator = operator
        self._drain_timeout_s = drain_timeout_s
        self._now = now
        self._lock = threading.RLock()
        self._closed = False
        self._backend = SparkBackend(spark, take_over=take_over)
        self._readings: ReadingSource = self._make_readings()
        self._draining: dict[str, Instant] = {}
        self._joined_s: dict[str, Instant] = {}
        self._left_s: dict[str, Instant] = {}
        self._busy: deque[tuple[Instant, int]] = deque()
        self._planned = max(1, self._backend.requested() or 0, len(self._serving(self._backend.executors())))
        # From here on a dead executor is replaced up to the target, and none comes beyond it.
        self._backend.request(self._planned)
        self._listen()

    @property
    def planned(self) -> int:
        """The size that the job is meant to have."""
        return self._planned

    @property
    def drains_gracefully(self) -> bool:
        """Whether this session lets executors finish their tasks (``spark.decommission.enabled``)."""
        return self._backend.drains_gracefully

    @property
    def further_metrics(self) -> Collection[str]:
        """What can be subscribed to."""
        return self._metrics.names

    def subscribe(self, keys: Collection[str]) -> None:
        """Collect these beyond the basic metrics, and no others."""
        with self._lock:
            self._metrics.subscribe(keys)

    def topology(self) -> Topology:
        return Topology.single(self._operator)

    def observe(self) -> Observation:
        with self._lock:
            self._refuse_if_closed()
            executors = self._backend.executors()
            self._take_in(self._now(), executors)
            now = self._now()
            sample = self._readings.sample(self._operator, now, self._utilization(now, executors))
            if sample is not None and (further := self._metrics.collect(executors, self._readings.observed)):
                sample = replace(sample, metrics=further)
            samples = {} if sample is None else {self._operator: sample}
            return Observation(now, samples, {self._operator: self._instances(executors)})

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._refuse_if_closed()
            now = self._now()
            for name in decision.verdicts:
                if name != self._operator:
                    raise EngineError(f"operator {name!r} is not of this job; it has only {self._operator!r}.")
            if self._operator not in decision.verdicts:
                return Receipt(now, {self._operator: Answer(Outcome.UNCHANGED, self._planned)})
            return self._reach(now, decision.targets[self._operator])

    def close(self) -> None:
        """Stop listening; the job goes on at its size."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._stop_listening()

    # ------------------------------------------------------------------ what differs between the kinds of streaming

    def _make_readings(self) -> ReadingSource:
        self._listener = _Listener(self._now)
        self._queries = Readings()
        return self._queries

    def _listen(self) -> None:
        with spark_errors("adding a streaming listener"):
            self._spark.streams.addListener(self._listener)

    def _stop_listening(self) -> None:
        with spark_errors("removing the streaming listener"):
            self._spark.streams.removeListener(self._listener)

    def _take_in_batches(self, now: Instant) -> None:
        """Bring the readings up to date with the events since the last time, and with batches that are running."""
        intervals_s = self._backend.queries()
        while self._listener.inbox:
            self._listener.inbox.popleft()(self._queries, intervals_s)
        for query_id in intervals_s:
            if self._backend.is_busy(query_id):
                self._queries.on_busy(query_id, now)

    # ------------------------------------------------------------------------------------------------ what they share

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EngineError("the Spark engine is closed.")

    def _serving(self, executors: list[Executor]) -> list[Executor]:
        return [executor for executor in executors if executor.is_active and executor.id not in self._draining]

    def _instances(self, executors: list[Executor]) -> Instances:
        requested = self._backend.requested()
        return Instances(
            planned=self._planned,
            requested=self._planned if requested is None else requested,
            ready=len(self._serving(executors)),
        )

    def _take_in(self, now: Instant, executors: list[Executor]) -> None:
        """Bring the readings up to date: executors that came and went, then batches."""
        # The status store has wall times; they are moved once to the loop's clock, which does not jump.
        shift_s = now - time.time()
        for executor in executors:
            self._joined_s.setdefault(executor.id, executor.added_ms / 1000 + shift_s)
            if executor.removed_ms is not None:
                self._left_s.setdefault(executor.id, executor.removed_ms / 1000 + shift_s)
        self._readings.on_executors(self._joined_s.values(), [*self._left_s.values(), *self._draining.values()])
        self._take_in_batches(now)

    def _utilization(self, now: Instant, executors: list[Executor]) -> float | None:
        """The busy share of all cores since about ``UTILIZATION_OVER_S`` ago."""
        self._busy.append((now, sum(executor.busy_ms for executor in executors)))
        while len(self._busy) > 2 and now - self._busy[1][0] >= UTILIZATION_OVER_S:
            self._busy.popleft()
        (since_s, busy_before_ms), (_, busy_ms) = self._busy[0], self._busy[-1]
        cores = sum(executor.cores for executor in executors if executor.is_active)
        if now - since_s < UTILIZATION_OVER_S / 2 or not cores:
            return None
        return min(1.0, max(0.0, (busy_ms - busy_before_ms) / 1000 / (cores * (now - since_s))))

    def _reach(self, now: Instant, target: int) -> Receipt:
        """Bring Spark to the target, whatever it was asked for before; where nothing deviates, nothing is done."""
        done = []
        if self._backend.requested() != target:
            if not self._backend.request(target):
                detail = f"the cluster did not take a request for {target} executors"
                return Receipt(now, {self._operator: Answer(Outcome.REFUSED, self._planned, detail)})
            done.append(f"requested {target} executors")
        self._planned = target
        executors = self._backend.executors()
        alive = {executor.id: executor for executor in executors if executor.is_active}
        self._draining = {name: since_s for name, since_s in self._draining.items() if name in alive}
        serving = self._serving(executors)
        for executor in least_useful(serving)[: max(0, len(serving) - target)]:
            self._draining[executor.id] = now
            drained = self._backend.drains_gracefully and self._backend.drain(executor.id)
            done.append(f"{'decommissioned' if drained else 'is to remove'} executor {executor.id}")
        if leaving := [name for name, since_s in self._draining.items() if self._must_go(now, since_s, alive[name])]:
            self._backend.kill(leaving)
            done.append(f"killed executor {', '.join(leaving)}")
        answer = Answer(Outcome.ACCEPTED if done else Outcome.UNCHANGED, target, "; ".join(done))
        return Receipt(now, {self._operator: answer})

    def _must_go(self, now: Instant, since_s: Instant, executor: Executor) -> bool:
        # Where the session cannot decommission, an executor is ended when it is found idle.
        idle = executor.active_tasks <= 0 and not self._backend.drains_gracefully
        return idle or now - since_s > self._drain_timeout_s


def application_id(job: SparkSession | StreamingContext) -> str:
    """What tells one Spark application from another."""
    return str(job.sparkContext.applicationId)


def application_name(job: SparkSession | StreamingContext) -> str:
    """What its user calls it."""
    return str(job.sparkContext.appName)


def least_useful(executors: list[Executor]) -> list[Executor]:
    """Executors in the order in which they can best be spared: idle, without cached blocks, youngest first."""
    return sorted(executors, key=lambda one: (max(0, one.active_tasks), one.cached_blocks, -one.added_ms, one.id))


class _Listener(StreamingQueryListener):
    """Keeps what Spark reports until the engine takes it in: callbacks hold up Spark's listener bus."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self.inbox: deque[Callable[[Readings, dict[str, float]], None]] = deque(maxlen=10_000)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        return None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        received_s, progress_json = self._now(), event.progress.json
        self.inbox.append(lambda readings, intervals_s: readings.on_progress(progress_json, received_s, intervals_s))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        received_s, query_id, run_id = self._now(), str(event.id), str(event.runId)
        self.inbox.append(lambda readings, intervals_s: readings.on_idle(query_id, run_id, received_s, intervals_s))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query_id, run_id = str(event.id), str(event.runId)
        self.inbox.append(lambda readings, _: readings.on_terminated(query_id, run_id))
