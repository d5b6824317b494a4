"""Measure the maximum sustainable throughput (MST) of real jobs by giving them more records than they can process.

The source is filled before a job starts, so that the job never waits for records. For each number of executors, on one
local cluster, throughput is read batch by batch until it settles. The time per record of an application is unknown at
first, so its batches are enlarged or reduced until they last about as long as requested.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headgate.core.errors import EngineError, HeadgateError
from headgate.core.types import Batch, Decision, Verdict
from headgate.engines.spark.query_plan import Plan
from headgate.lab.mst import STEADY_JOB, Measurement, MstPlan, MstResult, fitted
from headgate.policies.capacity.mst import converged, middling

if TYPE_CHECKING:
    from headgate.apps.steady_job import StreamingQuery
    from headgate.engines.spark import SparkEngine, SparkSession
    from headgate.local.spark.cluster import LocalCluster

_POLL_S = 0.2
_START_TIMEOUT_S = 90.0
_ENDLESS = 1_000_000_000
"""More records than any measurement processes."""
FIRST_GUESS_PER_S = 2000.0
"""Assumed throughput of an executor on an application, before any measurement."""
TRIED_BATCHES = 2
MOST_TRIALS = 5
ACCEPTED_LENGTH = (0.5, 2.0)
"""Batches are not resized if they last between these multiples of the requested time."""


class Watcher(Protocol):
    """Receives the progress of a measurement."""

    def stage(self, text: str) -> None: ...

    def reading(self, executors: int, readings: Sequence[float]) -> None: ...

    def settled(self, measurement: Measurement) -> None: ...


def measure_mst(plan: MstPlan, watcher: Watcher) -> MstResult:
    """Measure every size of one job on a temporary cluster, and fit the models."""
    (found,) = measure_all([plan], lambda _: watcher)
    if isinstance(found, HeadgateError):
        raise found
    return found


def measure_all(plans: Sequence[MstPlan], watch: Callable[[MstPlan], Watcher]) -> Iterator[MstResult | HeadgateError]:
    """Measure several jobs in turn on one cluster; yield the error of a job that could not be measured."""
    from headgate.engines.spark import SparkEngine
    from headgate.local.spark.cluster import LocalCluster
    from headgate.local.spark.interruption import Interruption

    first = watch(plans[0])
    first.stage("starting a Spark cluster on this machine")
    slots = max(size for plan in plans for size in plan.sizes)
    with Interruption().watched() as interruption, LocalCluster(slots=slots) as cluster:
        first.stage("starting the driver")
        spark = cluster.session("headgate-mst", plans[0].sizes[0], _session_settings(plans))
        with interruption.ends(spark):
            engine = SparkEngine(spark, take_over=True)
            for plan in plans:
                found = _measured(_Bench(plan, cluster, spark, engine, watch(plan)))
                if interruption.happened:
                    raise KeyboardInterrupt
                yield found
            first.stage("stopping the cluster")


def _session_settings(plans: Sequence[MstPlan]) -> dict[str, str]:
    """Return the Kafka connector, which Spark comes without, where a job needs it."""
    from headgate.local.connector import find_connector

    needs_connector = any(plan.own is not None and plan.own.names_kafka for plan in plans)
    return {"spark.jars": find_connector().spark_jars} if needs_connector else {}


def _measured(bench: _Bench) -> MstResult | HeadgateError:
    try:
        measurements = [bench.measure(size) for size in bench.plan.sizes]
        return fitted(bench.plan, measurements, bench.spark.version)
    except HeadgateError as error:
        return error


@dataclass
class _Bench:
    """Measures one job."""

    plan: MstPlan
    cluster: LocalCluster
    spark: SparkSession
    engine: SparkEngine
    watcher: Watcher
    _per_executor: float = field(init=False)
    """Records per second of an executor, as estimated so far."""
    _started: int = 0

    def __post_init__(self) -> None:
        self._per_executor = 1 / self.plan.cost_s if self._is_steady else FIRST_GUESS_PER_S

    @property
    def _is_steady(self) -> bool:
        """Whether the time of a record is known in advance."""
        return self.plan.own is None and self.plan.app == STEADY_JOB

    def measure(self, size: int) -> Measurement:
        self.watcher.stage(f"waiting for {executors_in_words(size)}")
        self._resize(size)
        self.watcher.stage(f"measuring {executors_in_words(size)}")
        measurement = None
        for trial in range(1, MOST_TRIALS + 1):
            may_adjust = not self._is_steady and trial < MOST_TRIALS
            with self._running(size) as query:
                measurement = self._watch(size, query, may_adjust=may_adjust)
            if measurement is not None:
                break
        assert measurement is not None, "the last trial always counts"
        self.watcher.settled(measurement)
        if measurement.throughput_per_s is not None:
            self._per_executor = measurement.throughput_per_s / size
        return measurement

    def _watch(self, size: int, query: StreamingQuery, *, may_adjust: bool) -> Measurement | None:
        """Return the measurement of a size; ``None`` if its batches have to be resized first."""
        readings: list[float] = []
        for batches in self._batches(size, query):
            if batches is None:
                readings.clear()
                continue
            for batch in batches:
                readings.append(batch.records / batch.processing_time_s)
                self.watcher.reading(size, readings)
                if may_adjust and self._has_wrong_length(batch, len(readings)):
                    self._per_executor = readings[-1] / size
                    return None
                if agreeing := converged(readings):
                    return Measurement(size, tuple(readings), tuple(agreeing))
        return Measurement(size, tuple(readings), tuple(middling(readings)), settled=False)

    def _has_wrong_length(self, batch: Batch, count: int) -> bool:
        """Return whether the first batches show that batches are too long or too short."""
        shortest, longest = ACCEPTED_LENGTH
        share = batch.processing_time_s / self.plan.batch_s
        # The first batch may be slow for other reasons, so it counts only where waiting for another would take long.
        return (share > longest and count <= TRIED_BATCHES) or (share < shortest and count == TRIED_BATCHES)

    def _batches(self, size: int, query: StreamingQuery) -> Iterator[list[Batch] | None]:
        """Yield newly ended batches until the timeout; ``None`` while an executor is missing, which spoils readings."""
        until_s = time.monotonic() + self.plan.timeout_s
        while time.monotonic() < until_s:
            time.sleep(_POLL_S)
            if not query.isActive:
                raise EngineError(f"the job ended by itself: {_first_line(query.exception())}")
            observation = self.engine.observe()
            sample = observation.samples.get("job")
            if observation.instances["job"].ready != size:
                yield None
                continue
            ended = () if sample is None else sample.batches
            yield [batch for batch in ended if not batch.warming and batch.records and batch.processing_time_s > 0]

    @contextmanager
    def _running(self, size: int) -> Iterator[StreamingQuery]:
        """Run the job from its beginning, with batches sized for a number of executors."""
        from headgate.apps.saturated import start_saturated
        from headgate.apps.steady_job import SteadyJob

        self._started += 1
        plan, directory = self.plan, self.cluster.directory / f"{self.plan.app}-{self._started}"
        rows = plan.rows_per_batch(size * self._per_executor)
        if plan.own is not None:
            query = plan.own.start(self.spark, Plan(max_records_per_batch=rows), directory / "checkpoint")
        elif plan.app == STEADY_JOB:
            query = SteadyJob(
                directory,
                workload="constant:0",
                seconds=0.0,
                cost_s=plan.cost_s,
                trigger_interval_s=0.0,
                partitions=plan.partitions,
                max_rows_per_batch=rows,
                prefill=_ENDLESS,
            ).start(self.spark)
        else:
            query = start_saturated(
                self.spark, plan.app, directory, partitions=plan.partitions, max_rows_per_batch=rows
            )
        try:
            yield query
        finally:
            query.stop()

    def _resize(self, size: int) -> None:
        until_s = time.monotonic() + _START_TIMEOUT_S
        while (instances := self.engine.observe().instances["job"]).ready != size or instances.planned != size:
            if time.monotonic() > until_s:
                raise EngineError(f"{instances.ready} of {size} executors were ready after {_START_TIMEOUT_S:g} s.")
            verdict = Verdict("job", instances.planned, size, size, "measured", "this size is measured next")
            self.engine.apply(Decision(time.time(), "mst", {"job": verdict}))
            time.sleep(_POLL_S)


def _first_line(error: object) -> str:
    """Return the first line of an error, without Spark's plans and traces."""
    return next(iter(str(error).splitlines()), "no reason is known")


def executors_in_words(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"
