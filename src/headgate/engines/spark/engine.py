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
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, InputError
from headgate.core.metrics import METRICS, Observed, aggregate, split_key
from headgate.core.topology import Topology
from headgate.core.types import (
    Answer,
    Batch,
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Sample,
)
from headgate.engines.spark.backend import Kills, Requests, SparkBackend, own_session, slots_per_executor
from headgate.engines.spark.executors import ExecutorHistory, FailureLimit, WarmUp, least_useful
from headgate.engines.spark.queries import SparkQueries
from headgate.engines.spark.query_readings import QueryReadings
from headgate.engines.spark.shortage import FAILED_LATELY_S, LOOK_AFTER_S, Shortage, failure_of, words_of
from headgate.engines.spark.snapshots import Executor, Inside, Query, SourceReport, SparkJob
from headgate.engines.spark.sources import SourceOffsets

if TYPE_CHECKING:
    from pyspark.streaming import StreamingContext

_OF_EXECUTOR: Mapping[str, Callable[[Executor], float | None]] = {
    "memory_share": lambda executor: executor.memory_used / executor.memory if executor.memory else None,
    "gc_share": lambda executor: min(1.0, executor.gc_ms / executor.busy_ms) if executor.busy_ms else None,
    "active_tasks": lambda executor: float(max(0, executor.active_tasks)),
    "failed_tasks": lambda executor: float(executor.failed_tasks),
}
SPARK_METRICS = frozenset(name for name in _OF_EXECUTOR if METRICS[name].per_instance)
"""The names of the metrics that executors report."""


class SparkMetrics:
    """The metrics that are subscribed to."""

    def __init__(self, observed: Mapping[str, Observed] | None = None) -> None:
        self._observed = dict(observed or {})
        self._keys: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Everything that could be subscribed to."""
        return SPARK_METRICS | self._observed.keys()

    def subscribe(self, keys: Collection[str]) -> None:
        self._keys = tuple(sorted(keys))

    def collect(
        self, executors: Sequence[Executor], observed: Mapping[tuple[str, str], float]
    ) -> dict[str, float | None]:
        """What is subscribed to, by key; ``observed`` is the newest of each observation and column."""
        found: dict[str, float | None] = {}
        for key in self._keys:
            name, aggregation = split_key(key)
            if name in self._observed:
                source = self._observed[name]
                found[key] = observed.get((source.observation, source.column))
            elif name in _OF_EXECUTOR:
                values = [
                    value
                    for executor in executors
                    if executor.is_active and (value := _OF_EXECUTOR[name](executor)) is not None
                ]
                found[key] = aggregate(values, aggregation)
        return found


def observed_in(progress: Mapping[str, object]) -> dict[tuple[str, str], float]:
    """The numbers that ``df.observe`` put into a progress event, by observation and column.

    >>> observed_in({"observedMetrics": {"quality": {"errors": 3, "note": "text"}}})
    {('quality', 'errors'): 3.0}
    """
    observations = progress.get("observedMetrics")
    if not isinstance(observations, Mapping):
        return {}
    return {
        (str(name), str(column)): float(value)
        for name, columns in observations.items()
        if isinstance(columns, Mapping)
        for column, value in columns.items()
        if isinstance(value, int | float)
    }


WIDTH_OVER_S = 600.0
"""How much can be done side by side is what the widest stage of about the last so many seconds had."""
MAX_ENDED = 20
"""Queries that have ended of which it is remembered when their records came, should they be started again."""
OBSERVED_FOR_S = 60.0
"""A number that the job computes itself expires after so long, or after three trigger intervals if that is longer."""


@dataclass(slots=True)
class _Followed:
    readings: QueryReadings
    warm_up: WarmUp = field(default_factory=WarmUp)


class ApplicationReadings:
    """Follows all queries of one application that count."""

    def __init__(self, late_after_s: float | None = None, queries: Sequence[str] | None = None) -> None:
        self._late_after_s = late_after_s
        self.counts = _chosen(queries)
        """Whether a query of this name is among those that count."""
        self._queries: dict[str, _Followed] = {}
        self._widths: deque[tuple[Instant, int]] = deque()
        self._boundary = (0.0, 0.0)
        self._observed: dict[tuple[str, str], tuple[Instant, float, float]] = {}
        self._gone = {"arrived": 0.0, "done": 0.0, "late": 0.0}
        self._last: dict[str, Sample] = {}
        self._ended: dict[str, QueryReadings] = {}
        """Queries that ended, by their id, which stays the same when they are started again."""

    def inside(self, run_id: str) -> Inside:
        """What is worth asking of a query's tasks."""
        followed = self._queries.get(run_id)
        return Inside() if followed is None else followed.readings.inside

    def observed(self, now: Instant) -> dict[tuple[str, str], float]:
        """The newest numbers of ``df.observe`` that are not too old, by observation and column."""
        return {key: value for key, (at_s, keep_s, value) in self._observed.items() if now - at_s <= keep_s}

    def update(
        self,
        now: Instant,
        queries: Iterable[Query],
        jobs: Iterable[SparkJob],
        reports: Mapping[str, Sequence[SourceReport]],
        executors: ExecutorHistory,
        ready: int,
    ) -> None:
        """Bring everything up to date with the state of Spark and the reports of the sources."""
        counted = [query for query in queries if self.counts(query.name)]
        self._forget_ended({query.run_id for query in counted})
        by_group: dict[str, list[SparkJob]] = {}
        for job in jobs:
            by_group.setdefault(job.group, []).append(job)
        ended: list[Batch] = []
        for query in counted:
            followed = self._queries.get(query.run_id)
            if followed is None:
                before = self._ended.pop(query.id, None)
                followed = _Followed(QueryReadings(query, now, self._late_after_s, before))
                self._queries[query.run_id] = followed
            group = by_group.get(query.run_id, [])
            batches = followed.readings.update(now, query, group, reports.get(query.run_id, ()))
            ended.extend(
                followed.warm_up.mark(batch, executors, ready, has_worked=bool(batch.records)) for batch in batches
            )
            self._take_in_observed(query)
            self.widen(now, max((job.widest_tasks for job in group), default=0))
        executors.on_batches(ended)
        self._move_boundary(ended, executors)
        self._last = {followed.readings.run_id: self._part(now, followed, ended) for followed in self._queries.values()}

    def sample(self, operator: str, now: Instant, slots_per_instance: int) -> Sample | None:
        """The state of the whole application now; ``None`` while there is no query that counts."""
        parts = list(self._last.values())
        if not parts:
            return None
        slowest = max(parts, key=lambda part: part.latency_s or 0.0)
        busy_s, available_s = self._boundary
        ended_s = [part.batch_ended_s for part in parts if part.batch_ended_s is not None]
        running_s = [part.running_s for part in parts if part.running_s is not None]
        return replace(
            slowest,
            operator=operator,
            at_s=now,
            age_s=max(part.age_s for part in parts),
            arrived=self._total("arrived", parts),
            done=self._total("done", parts),
            late=None if self._late_after_s is None else self._total("late", parts),
            busy_s=busy_s,
            available_s=available_s,
            batches=tuple(sorted((b for part in parts for b in part.batches), key=lambda batch: batch.ended_s)),
            backlog=_sum(part.backlog for part in parts),
            running_s=max(running_s, default=None),
            batch_ended_s=max(ended_s, default=None),
            useful_instances=self._useful(slots_per_instance),
            input_rate_per_s=_sum(part.input_rate_per_s for part in parts),
            warming=any(part.warming for part in parts),
            parts={part.operator: part for part in parts} if len(parts) > 1 else {},
        )

    # ------------------------------------------------------------------------------------------------------ each query

    def _part(self, now: Instant, followed: _Followed, ended: Sequence[Batch]) -> Sample:
        sample = followed.readings.sample(now)
        batches = tuple(batch for batch in ended if batch.query == followed.readings.name)
        return replace(sample, batches=batches, warming=followed.warm_up.warming)

    def _forget_ended(self, running: set[str]) -> None:
        for run_id in self._queries.keys() - running:
            last = self._last.pop(run_id, None)
            ended = self._queries.pop(run_id).readings
            self._ended[ended.id] = ended
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
            # Counters of the application go on; what a query that was stopped had not done yet is nobody's any more.
            if last is not None:
                done = last.done or 0.0
                self._gone["arrived"] += done
                self._gone["done"] += done
                self._gone["late"] += last.late or 0.0

    def _total(self, counter: str, parts: Iterable[Sample]) -> float:
        return self._gone[counter] + sum(getattr(part, counter) or 0.0 for part in parts)

    # ------------------------------------------------------------------------------------------------ all of them

    def _move_boundary(self, ended: Sequence[Batch], executors: ExecutorHistory) -> None:
        """Busy and available time are compared at the ends of batches only: tasks tell their time when they end."""
        idle = not any(followed.readings.is_running for followed in self._queries.values())
        if ended or idle:
            self._boundary = (executors.busy_s, executors.available_s)

    def width_is_known(self, now: Instant) -> bool:
        """Whether it was seen lately how much can be done side by side; short jobs are over before anybody looks."""
        return bool(self._widths) and now - self._widths[-1][0] < WIDTH_OVER_S / 10

    def widen(self, now: Instant, tasks: int) -> None:
        """Take in the tasks of a stage that runs or ran."""
        if tasks:
            self._widths.append((now, tasks))
        while self._widths and now - self._widths[0][0] > WIDTH_OVER_S and len(self._widths) > 1:
            self._widths.popleft()

    def _useful(self, slots_per_instance: int) -> int | None:
        if not self._widths:
            return None
        return max(1, math.ceil(max(width for _, width in self._widths) / max(1, slots_per_instance)))

    def _take_in_observed(self, query: Query) -> None:
        keep_s = max(OBSERVED_FOR_S, 3 * query.trigger_interval_s)
        for progress in query.progresses:
            for key, value in observed_in(progress.body).items():
                self._observed[key] = (progress.ended_s, keep_s, value)


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of what must all be known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _chosen(queries: Sequence[str] | None) -> Callable[[str], bool]:
    """Which names count: those that were named, or all but those that were left out with ``!``."""
    if not queries:
        return lambda _: True
    left_out = {name[1:] for name in queries if name.startswith("!")}
    named = {name for name in queries if not name.startswith("!")}
    return lambda name: name not in left_out and (not named or name in named)


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
        self._spark = spark = own_session(spark)
        self._operator = operator
        self._drain_timeout_s = drain_timeout_s
        self._now = now
        self._lock = threading.RLock()
        self._closed = False
        self._backend = SparkBackend(spark, take_over=take_over)
        requested = self._backend.requested()
        self._requests = Requests(self._backend.request, confirmed=requested)
        self._kills = Kills(self._backend.kill)
        self._slots = slots_per_executor(spark)
        self._executors = ExecutorHistory()
        self._listed: list[Executor] = []
        self._listed_s = -math.inf
        self._draining: dict[str, Instant] = {}
        self._owns_target = requested is not None
        """Until somebody asks for a number, executors may still be coming that the session was set up with."""
        self._sent_away: set[str] = set()
        """Executors whose end is Headgate's doing, and no failure."""
        self._failures = FailureLimit.of(spark, self._backend.failure_tracker(), now(), acts=take_over is not None)
        self._shortage = Shortage(words_of(spark))
        self._short_since_s: Instant | None = None
        self._events = [] if self._failures.event is None else [self._failures.event]
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

    def take_events(self) -> list[Event]:
        """Return and forget what there is to say, for the journal."""
        with self._lock:
            events = [*self._events, *self._shortage.events]
            self._events, self._shortage.events = [], []
            return events

    def topology(self) -> Topology:
        return Topology.single(self._operator)

    def observe(self) -> Observation:
        with self._lock:
            self._refuse_if_closed()
            self._backend.refuse_if_stopped()
            executors = self._listed = self._backend.executors()
            now = self._listed_s = self._now()
            self._executors.see(now, now - time.time(), executors)
            self._failures.see(now, now - time.time(), executors, self._sent_away)
            self._adopt(executors)
            self._look(now, len(self._serving(executors)))
            now = self._now()
            sample = self._readings.sample(self._operator, now, self._slots)
            if sample is not None and (extra := self._metrics.collect(executors, self._readings.observed(now))):
                sample = replace(sample, metrics=extra)
            samples = {} if sample is None else {self._operator: sample}
            startups = self._executors.take_startups(now)
            instances = {self._operator: self._instances(now, executors)}
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
        self._queries.refuse_real_time()
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
        """Plan with the executors that the session was set up with until another number is requested.

        On a standalone cluster they come one after the other, for seconds after the session has started.
        """
        if self._owns_target:
            if self._requests.sync(self._backend.requested()):
                self._failures.restart()
        else:
            self._planned = max(self._planned, len(self._serving(executors)))

    def _instances(self, now: Instant, executors: list[Executor]) -> Instances:
        requested = self._requests.confirmed if self._owns_target else None
        ready = len(self._serving(executors))
        return Instances(
            planned=self._planned,
            requested=self._planned if requested is None else requested,
            ready=ready,
            missing_why=self._missing_why(now, ready, executors),
        )

    def _missing_why(self, now: Instant, ready: int, executors: list[Executor]) -> str:
        """Why executors are missing that had the time to start; empty if none is, or it is not known."""
        if ready >= self._planned:
            self._short_since_s = None
            return ""
        since_s = self._short_since_s = now if self._short_since_s is None else self._short_since_s
        if now - since_s < LOOK_AFTER_S:
            return ""
        failure = failure_of(executors, self._sent_away, 1000 * (time.time() - FAILED_LATELY_S))
        return self._shortage.look(now, since_s, self._planned, ready, failure)

    def _reach(self, now: Instant, target: int) -> Answer:
        """Bring Spark to the target, whatever was requested before; where nothing deviates, nothing is done."""
        if target < 0:
            return Answer(Outcome.REFUSED, self._planned, f"{target} executors are not possible; at least 0 are.")
        executors = self._executors_now(now)
        alive = {executor.id: executor for executor in executors if executor.is_active}
        paused = self._failures.why_paused(now) if target > len(alive) else None
        if paused is not None:
            target = max(1, len(alive))  # What fails meanwhile is not replaced either.
        done = [] if paused is None else [paused]
        if target != self._planned:
            self._owns_target = True
        if self._owns_target and self._requests.confirmed != target:
            more = target - (self._planned if self._requests.confirmed is None else self._requests.confirmed)
            if (answer := self._requests.ask(target)) is not None:
                return replace(answer, requested=self._planned)
            self._executors.requested(more, now)
            done.append(f"requested {target} executors")
        self._planned = target
        self._draining = {name: since_s for name, since_s in self._draining.items() if name in alive}
        serving = self._serving(executors)
        surplus = max(0, len(serving) - target) if self._owns_target else 0
        for executor in least_useful(serving)[:surplus]:
            self._draining[executor.id] = now
            self._sent_away.add(executor.id)
            drained = self._backend.drains_gracefully and self._backend.drain(executor.id)
            done.append(f"{'decommissioned' if drained else 'is to remove'} executor {executor.id}")
        if leaving := [name for name, since_s in self._draining.items() if self._must_go(now, since_s, alive[name])]:
            done.append(self._kills.end(leaving))
        outcome = Outcome.REFUSED if paused else Outcome.ACCEPTED if done else Outcome.UNCHANGED
        return Answer(outcome, target, "; ".join(done))

    def _executors_now(self, now: Instant) -> list[Executor]:
        # A decision follows an observation within milliseconds, and holds are applied too.
        return self._listed if now - self._listed_s < FRESH_S else self._backend.executors()

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


def configuration(job: SparkSession | StreamingContext) -> dict[str, str]:
    """Return the configuration that its application was started with."""
    return dict(_session(job).sparkContext.getConf().getAll())


def _session(job: SparkSession | StreamingContext) -> SparkSession | StreamingContext:
    session: SparkSession | StreamingContext = own_session(job)
    if not hasattr(session, "sparkContext"):
        raise InputError(f"{job!r} cannot be scaled; give this driver's own SparkSession or a StreamingContext.")
    return session
