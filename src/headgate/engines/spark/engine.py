"""One Spark application as an operator that is scaled by its executors, from inside its driver, without changing Spark.

Readings come from the queries' own handles, the status store and the sources; sizes are set through the scheduler's own
allocation client. Once the size was changed the engine owns the target: Spark replaces executors that die up to it, and
what is above it is drained. An executor is removed by decommissioning it, so that it finishes its tasks and hands over
its blocks; one that has not left after ``drain_timeout_s`` is killed. Closing the engine leaves the job at its size.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, InputError
from headgate.core.metrics import Observed
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Instances, Instant, Observation, Outcome, Receipt, Sample
from headgate.engines.spark.backend import SparkBackend
from headgate.engines.spark.executors import ExecutorHistory, Kills, Requests, least_useful
from headgate.engines.spark.queries import SparkQueries
from headgate.engines.spark.readings import ApplicationReadings, SparkMetrics
from headgate.engines.spark.snapshots import Executor
from headgate.engines.spark.sources import SourceOffsets

if TYPE_CHECKING:
    from pyspark.streaming import StreamingContext


FRESH_S = 0.5
"""As long as this, what was seen of the executors is good enough to choose by."""


class ReadingSource(Protocol):
    """Makes one reading of the whole application from what its streaming tells."""

    def observed(self, now: Instant) -> Mapping[tuple[str, str], float]:
        """The newest numbers that the job computes itself, by observation and column."""
        ...

    def sample(self, operator: str, now: Instant, slots_per_instance: int) -> Sample | None: ...


class SparkEngine:
    """Observes and resizes the executors of one Spark application; the whole application is one operator.

    - ``queries``: names of the streaming queries that count, where not all do; ``"!name"`` leaves one out
    - ``take_over``: stop Spark's own dynamic allocation instead of refusing it; ``None`` leaves it alone, for those who
      only observe
    - ``late_after_s``: a record whose result comes later than this counts as late
    - ``observed``: numbers that the job computes with ``df.observe``, for those who subscribe to them
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        operator: str = "job",
        take_over: bool | None = False,
        drain_timeout_s: float = 30.0,
        now: Callable[[], Instant] = time.time,
        observed: Mapping[str, Observed] | None = None,
        queries: Sequence[str] | None = None,
        late_after_s: float | None = None,
    ) -> None:
        self._metrics = SparkMetrics(observed)
        self._spark = spark
        self._operator = operator
        self._drain_timeout_s = drain_timeout_s
        self._now = now
        self._lock = threading.RLock()
        self._closed = False
        self._backend = SparkBackend(spark, take_over=take_over)
        requested = self._backend.requested()
        self._requests = Requests(self._backend.request, confirmed=requested)
        self._kills = Kills(self._backend.kill)
        self._slots = self._backend.slots_per_executor()
        self._executors = ExecutorHistory()
        self._listed: list[Executor] = []
        self._listed_s = -math.inf
        self._draining: dict[str, Instant] = {}
        self._owns_target = requested is not None
        """Until somebody asks for a number, executors may still be coming that the session was set up with."""
        registered = sum(executor.can_work for executor in self._backend.executors())
        self._planned = max(1, registered, requested or 0, 0 if requested else self._backend.configured() or 0)
        self._readings: ReadingSource = self._make_readings(queries, late_after_s)

    @property
    def planned(self) -> int:
        """The size that the job is meant to have."""
        return self._planned

    @property
    def drains_gracefully(self) -> bool:
        """Whether this session lets executors finish their tasks (``spark.decommission.enabled``)."""
        return self._backend.drains_gracefully

    @property
    def extra_metrics(self) -> Collection[str]:
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
            self._backend.refuse_if_stopped()
            executors = self._listed = self._backend.executors()
            now = self._listed_s = self._now()
            self._executors.see(now, now - time.time(), executors)
            self._adopt(executors)
            self._look(now, len(self._serving(executors)))
            now = self._now()
            sample = self._readings.sample(self._operator, now, self._slots)
            if sample is not None and (extra := self._metrics.collect(executors, self._readings.observed(now))):
                sample = replace(sample, metrics=extra)
            samples = {} if sample is None else {self._operator: sample}
            startups = self._executors.take_startups(now)
            instances = {self._operator: self._instances(executors)}
            return Observation(now, samples, instances, {self._operator: startups} if startups else {})

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._refuse_if_closed()
            self._backend.refuse_if_stopped()
            now = self._now()
            for name in decision.verdicts:
                if name != self._operator:
                    raise EngineError(f"operator {name!r} is not of this job; it has only {self._operator!r}.")
            if self._operator not in decision.verdicts:
                return Receipt(now, {self._operator: Answer(Outcome.UNCHANGED, self._planned)})
            return Receipt(now, {self._operator: self._reach(now, decision.targets[self._operator])})

    def close(self) -> None:
        """Let go of the job, which goes on at its size."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._let_go()

    # ------------------------------------------------------------------ what differs between the kinds of streaming

    def _make_readings(self, queries: Sequence[str] | None, late_after_s: float | None) -> ReadingSource:
        jvm: Any = self._spark.sparkContext._jvm
        self._queries = SparkQueries(self._spark, self._backend, self._now)
        self._sources = SourceOffsets(jvm, self._now)
        self._query_readings = ApplicationReadings(late_after_s, queries)
        return self._query_readings

    def _look(self, now: Instant, ready: int) -> None:
        """Bring the readings up to date."""
        readings = self._query_readings
        queries = self._queries.look(readings.counts)
        jobs = self._queries.jobs(readings.inside) if queries else []
        reports = {query.run_id: self._sources.ask(query) for query in queries}
        self._sources.forget_all_but({query.run_id for query in queries})
        readings.update(self._now(), queries, jobs, reports, self._executors, ready)
        if not readings.width_is_known(now):
            for query in queries:
                # An empty batch is one task, however many there will be.
                if any(progress.has_rows for progress in query.progresses):
                    readings.widen(now, self._queries.width(query.run_id))

    def _let_go(self) -> None:
        self._sources.close()

    # ------------------------------------------------------------------------------------------------ what they share

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EngineError("the Spark engine is closed.")

    def _serving(self, executors: list[Executor]) -> list[Executor]:
        return [executor for executor in executors if executor.can_work and executor.id not in self._draining]

    def _adopt(self, executors: list[Executor]) -> None:
        """Plan with the executors that the session was set up with, as long as nobody has asked for another number.

        On a standalone cluster they come one after the other, for seconds after the session has started.
        """
        if not self._owns_target:
            self._planned = max(self._planned, len(self._serving(executors)))

    def _instances(self, executors: list[Executor]) -> Instances:
        requested = self._requests.confirmed if self._owns_target else None
        return Instances(
            planned=self._planned,
            requested=self._planned if requested is None else requested,
            ready=len(self._serving(executors)),
        )

    def _reach(self, now: Instant, target: int) -> Answer:
        """Bring Spark to the target, whatever it was asked for before; where nothing deviates, nothing is done."""
        if target < 0:
            return Answer(Outcome.REFUSED, self._planned, f"{target} executors are not possible; at least 0 are.")
        done = []
        if target != self._planned:
            self._owns_target = True
        if self._owns_target and self._requests.confirmed != target:
            more = target - (self._planned if self._requests.confirmed is None else self._requests.confirmed)
            if (answer := self._requests.ask(target)) is not None:
                return replace(answer, requested=self._planned)
            self._executors.requested(more, now)
            done.append(f"requested {target} executors")
        self._planned = target
        # A decision follows an observation within milliseconds, and holds are applied too.
        executors = self._listed if now - self._listed_s < FRESH_S else self._backend.executors()
        alive = {executor.id: executor for executor in executors if executor.is_active}
        self._draining = {name: since_s for name, since_s in self._draining.items() if name in alive}
        serving = self._serving(executors)
        surplus = max(0, len(serving) - target) if self._owns_target else 0
        for executor in least_useful(serving)[:surplus]:
            self._draining[executor.id] = now
            drained = self._backend.drains_gracefully and self._backend.drain(executor.id)
            done.append(f"{'decommissioned' if drained else 'is to remove'} executor {executor.id}")
        if leaving := [name for name, since_s in self._draining.items() if self._must_go(now, since_s, alive[name])]:
            done.append(self._kills.end(leaving))
        return Answer(Outcome.ACCEPTED if done else Outcome.UNCHANGED, target, "; ".join(done))

    def _must_go(self, now: Instant, since_s: Instant, executor: Executor) -> bool:
        # Where the session cannot decommission, an executor is ended when it is found idle.
        idle = executor.active_tasks <= 0 and not self._backend.drains_gracefully
        return idle or now - since_s > self._drain_timeout_s


def application_id(job: SparkSession | StreamingContext) -> str:
    """What tells one Spark application from another."""
    return str(_session(job).sparkContext.applicationId)


def application_name(job: SparkSession | StreamingContext) -> str:
    """What its user calls it."""
    return str(_session(job).sparkContext.appName)


def _session(job: SparkSession | StreamingContext) -> SparkSession | StreamingContext:
    # A session of Spark Connect has none either.
    if not hasattr(job, "sparkContext"):
        raise InputError(
            f"{job!r} cannot be scaled; give this driver's own SparkSession, not one of Spark Connect, or a "
            "StreamingContext."
        )
    return job
