"""The Spark engine on a real cluster: sizes, readings, faults, and a sink that is exact each time."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.core.errors import EngineError, InputError
from headgate.core.types import Instances, Outcome, Sample
from headgate.engines.spark import SparkEngine
from headgate.engines.spark.backend import RequestedTotals
from headgate.engines.spark.snapshots import Executor
from headgate.testing.engines import check_engine
from tests.live.support import Watched, decision, eventually, executor_processes, resize, settle, size


def steady_job(directory: Path, *, seconds: float, rate: float = 60.0) -> SteadyJob:
    return SteadyJob(
        directory,
        workload=f"constant:{rate:g}",
        seconds=seconds,
        cost_s=0.02,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=120,
    )


def running_executors(engine: SparkEngine) -> list[Executor]:
    return [executor for executor in engine._backend.executors() if executor.is_active]


def test_it_keeps_the_engine_contract(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    engine.close()

    def at_work() -> SparkEngine:
        made = SparkEngine(spark, take_over=True)
        eventually("a reading", lambda: "job" in made.observe().samples)
        return made

    query = steady_job(tmp_path, seconds=600.0, rate=20.0).start(spark)
    try:
        check_engine(at_work, settle)
    finally:
        query.stop()


@pytest.mark.soak
def test_scaling_out_and_in_loses_and_doubles_nothing(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    job = steady_job(tmp_path, seconds=12.0, rate=30.0)
    query = job.start(spark)
    try:
        eventually("a first reading", lambda: "job" in engine.observe().samples)
        started = executor_processes()
        receipt = resize(engine, 3)
        assert "requested 3 executors" in receipt.detail
        grown = executor_processes()
        assert started.keys() < grown.keys()
        receipt = resize(engine, 1)
        assert "decommissioned executor" in receipt.detail
        assert executor_processes().keys() < grown.keys(), "those that are left are of those that were there"
        query.processAllAvailable()
        # None comes back: the total requested from Spark is one.
        assert size(engine) == Instances(1, 1, 1)
        assert len(executor_processes()) == 1
    finally:
        query.stop()
    assert job.check(spark).is_exact
    assert job.check(spark).records == 12 * 30


def test_arrivals_and_lag_come_from_offsets_not_from_what_was_admitted(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    """100 records/s arrive, one executor can do 50: what is admitted is half of what arrives."""
    job = steady_job(tmp_path, seconds=90.0, rate=100.0)
    query = job.start(spark)
    watched = Watched(engine)
    settled: list[Sample] = []

    def reading() -> bool:
        sample = watched.look()
        if sample is not None and not sample.warming and sample.batches:
            settled.append(sample)
        return len(settled) >= 3

    try:
        eventually("three settled batches", reading)
    finally:
        query.stop()
    last = settled[-1]
    assert last.input_rate_per_s == pytest.approx(100.0, rel=0.25)
    assert last.processed_rate_per_s is not None
    assert last.processed_rate_per_s < 60.0
    assert last.backlog is not None
    assert last.backlog > settled[0].backlog > 0  # type: ignore[operator]
    assert last.latency_s is not None
    assert settled[0].latency_s is not None
    assert last.latency_s > settled[0].latency_s
    assert last.trigger_interval_s == 1.0


def test_an_executor_killed_in_a_batch_is_replaced_and_nothing_is_lost(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    resize(engine, 2)
    job = steady_job(tmp_path, seconds=8.0, rate=40.0)
    query = job.start(spark)
    try:
        eventually("a first reading", lambda: "job" in engine.observe().samples)
        victim, process = min(executor_processes().items())
        eventually("a batch to be running", lambda: bool(query.status["isTriggerActive"]))
        process.send_signal(signal.SIGKILL)
        eventually("the death to be seen", lambda: size(engine).ready < 2)
        assert size(engine).planned == 2
        eventually("a replacement", lambda: size(engine) == Instances(2, 2, 2))
        assert victim not in executor_processes()
        query.processAllAvailable()
    finally:
        query.stop()
    assert job.check(spark).is_exact
    assert job.check(spark).records == 8 * 40


def test_a_target_below_one_that_died_does_not_bring_it_back(engine: SparkEngine) -> None:
    resize(engine, 2)
    engine.apply(decision(size(engine), 1))
    eventually("one executor", lambda: len(executor_processes()) == 1)
    (process,) = executor_processes().values()
    process.send_signal(signal.SIGKILL)
    eventually("its replacement", lambda: size(engine) == Instances(1, 1, 1) and len(executor_processes()) == 1)


@pytest.mark.soak
def test_an_executor_that_does_not_leave_in_time_is_killed(spark: SparkSession) -> None:
    """A task that takes long holds its executor; the tasks of a killed one run again elsewhere."""

    def work(number: int) -> int:
        time.sleep(6)
        return number

    engine = SparkEngine(spark, take_over=True, drain_timeout_s=2.0)
    resize(engine, 2)
    with ThreadPoolExecutor(1) as pool:
        total = pool.submit(lambda: spark.sparkContext.parallelize(range(2), 2).map(work).sum())
        eventually(
            "both executors to be busy", lambda: all(executor.active_tasks for executor in running_executors(engine))
        )
        engine.apply(decision(size(engine), 1))
        details: list[str] = []

        def killed() -> bool:
            details.append(engine.apply(decision(size(engine), 1)).detail)
            return any("killed executor" in detail for detail in details)

        eventually("it to be killed", killed, 15.0)
        eventually("one executor", lambda: len(executor_processes()) == 1)
        assert total.result() == 1
    engine.close()


def test_an_unknown_operator_is_refused(engine: SparkEngine) -> None:
    wanted = decision(size(engine), 2)
    verdict = wanted.verdicts["job"]
    with pytest.raises(EngineError, match="'enrich' is not of this job"):
        engine.apply(type(wanted)(0.0, "test", {"enrich": verdict}))


def test_applying_what_is_there_changes_nothing(engine: SparkEngine) -> None:
    assert engine.apply(decision(size(engine), 1)).outcome is Outcome.UNCHANGED


def test_sparks_own_allocation_that_was_stopped_is_in_nobodys_way(spark: SparkSession, engine: SparkEngine) -> None:
    """It was stopped when the session was opened; before, that had to be said again at each start."""
    engine.close()
    for _ in range(2):
        with headgate.autoscale(spark, policy="static", executors=(1, 1)) as autoscaler:
            assert autoscaler.is_alive


def test_what_older_versions_tell_only_by_a_field_is_there_too(engine: SparkEngine) -> None:
    by_field = RequestedTotals(engine._backend._backend, frozenset())
    assert by_field.read() == engine._backend._totals.read()
    assert by_field.read()[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "reactiv"}, "did you mean 'reactive'"),
        ({"objective": "fast please"}, "is not understood"),
        ({"executors": (3, 2)}, "max_instances 2 is below min_instances 3"),
        ({"policy": "reactive", "settings": {"idle_for": 3}}, "did you mean 'idle_for_s'"),
        ({"guards": {"gain_in": 2}}, "gain_in 2 is not allowed"),
        ({"interval": "soon"}, "'soon' is not understood"),
    ],
)
def test_wrong_arguments_are_reported_before_the_session_is_touched(
    spark: SparkSession, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        headgate.autoscale(spark, **arguments)  # type: ignore[arg-type]
