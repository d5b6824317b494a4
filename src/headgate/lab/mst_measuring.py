"""Measuring the maximum sustainable throughput (MST) of real jobs: give them more than they can do, and count.

The source is filled before a job starts, so that it never waits for records. For each number of executors in turn, on
one cluster on this machine, throughput is read batch by batch until it has settled. How long a record of an application
takes is not known before: its batches are made larger or smaller until they last about as long as was asked for.
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
"""Records that no measurement gets through."""
FIRST_GUESS_PER_S = 2000.0
"""Of what one executor gets through of an application, before anything is known."""
TRIED_BATCHES = 2
MOST_TRIALS = 5
AS_LONG_AS_ASKED = (0.5, 2.0)
"""Batches that last so many times what was asked for are neither made larger nor smaller."""


class Watcher(Protocol):
    """Is told how far the measurement is."""

    def stage(self, text: str) -> None: ...

    def reading(self, executors: int, readings: Sequence[float]) -> None: ...

    def settled(self, measurement: Measurement) -> None: ...


def measure_mst(plan: MstPlan, watcher: Watcher) -> MstResult:
    """Measure every size of one job on a cluster of its own, which is gone afterwards, and fit the models."""
    (found,) = measure_all([plan], lambda _: watcher)
    if isinstance(found, HeadgateError):
        raise found
    return found


def measure_all(plans: Sequence[MstPlan], watch: Callable[[MstPlan], Watcher]) -> Iterator[MstResult | HeadgateError]:
    """Measure several jobs, one after the other on one cluster; what kept one from being measured is told instead."""
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
    """Spark comes without the connector that a job on Kafka needs."""
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
    """What measures one job."""

    plan: MstPlan
    cluster: LocalCluster
    spark: SparkSession
    engine: SparkEngine
    watcher: Watcher
    _per_executor: float = field(init=False)
    """Records per second, as far as is known."""
    _started: int = 0

    def __post_init__(self) -> None:
        self._per_executor = 1 / self.plan.cost_s if self._is_steady else FIRST_GUESS_PER_S

    @property
    def _is_steady(self) -> bool:
        """Whether it is known before how long a record takes."""
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
        assert measurement is not None, "the last trial is taken as it is"
        self.watcher.settled(measurement)
        if measurement.throughput_per_s is not None:
            self._per_executor = measurement.throughput_per_s / size
        return measurement

    def _watch(self, size: int, query: StreamingQuery, *, may_adjust: bool) -> Measurement | None:
        """What it settles at; ``None`` when its batches are to be made larger or smaller first."""
        readings: list[float] = []
        for batches in self._batches(size, query):
            if batches is None:
                readings.clear()
                continue
            for batch in batches:
                readings.append(batch.records / batch.processing_time_s)
                self.watcher.reading(size, readings)
                if may_adjust and self._is_of_another_length(batch, len(readings)):
                    self._per_executor = readings[-1] / size
                    return None
                if agreeing := converged(readings):
                    return Measurement(size, tuple(readings), tuple(agreeing))
        return Measurement(size, tuple(readings), tuple(middling(readings)), settled=False)

    def _is_of_another_length(self, batch: Batch, count: int) -> bool:
        """Whether the first batches show that they do not last as long as was asked for."""
        shortest, longest = AS_LONG_AS_ASKED
        share = batch.processing_time_s / self.plan.batch_s
        # The first may be slow for other reasons, and only if it lasts too long is there time to be lost.
        return (share > longest and count <= TRIED_BATCHES) or (share < shortest and count == TRIED_BATCHES)

    def _batches(self, size: int, query: StreamingQuery) -> Iterator[list[Batch] | None]:
        """The batches that ended, look by look, until time is up; ``None`` when an executor was lost: what it left
        unfinished is nobody's throughput."""
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
            yield [one for one in ended if not one.warming and one.records and one.processing_time_s > 0]

    @contextmanager
    def _running(self, size: int) -> Iterator[StreamingQuery]:
        """The job, from its beginning, with batches for so many executors."""
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
    """What happened, without the plans and traces that Spark tells with it."""
    return next(iter(str(error).splitlines()), "no reason is known")


def executors_in_words(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"
