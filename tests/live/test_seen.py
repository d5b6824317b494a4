"""What was once seen to go wrong on real jobs, each by its behaviour: idle jobs, foreachBatch, first batches, sizes."""

from __future__ import annotations

import functools
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headgate
from headgate.apps.load_source import LoadSource
from headgate.apps.steady_job import SteadyJob, working
from headgate.core.errors import InputError
from headgate.core.objective import SlowShareSlo, ThroughputSlo
from headgate.core.types import Instances, Observation, Outcome, Sample
from headgate.engines.spark import SparkEngine
from headgate.engines.spark.backend import DEFAULT_PROFILE
from headgate.journal.writer import SqliteJournal
from tests.live.support import (
    Watched,
    decision,
    eventually,
    executor_processes,
    master_process,
    size,
)


@contextmanager
def running(*queries: StreamingQuery) -> Iterator[None]:
    """Stop queries at the end, however it comes."""
    try:
        yield
    finally:
        for query in queries:
            query.stop()


def test_an_idle_job_does_not_scale(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """Default trigger, source gone quiet: Spark goes on looking for data, and now and then a trigger is active."""
    engine.close()
    job = SteadyJob(tmp_path, "constant:20", seconds=3.0, cost_s=0.01, trigger_interval_s=0.0, partitions=2)
    seen: list[Observation] = []
    query = job.start(spark)
    with (
        running(query),
        headgate.autoscale(
            spark, objective="latency p95 < 2s", executors=(1, 3), interval=0.25, take_over=True
        ) as autoscaler,
    ):
        autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
        # The last batch may have been late enough to grow for; from then on nothing happens any more.
        eventually("all records", lambda: len(seen) > 4 and _done(seen[-4]) >= 60)
        before = len(seen)
        time.sleep(8)
    quiet = [observation.samples["job"] for observation in seen[before:]]
    assert len(quiet) > 20
    assert {(sample.latency_s, sample.backlog, sample.running_s) for sample in quiet} == {(0.0, 0.0, None)}
    assert quiet[-1].input_rate_per_s == 0
    sizes = [observation.instances["job"].planned for observation in seen[before:]]
    assert max(sizes) == sizes[0], "an idle job does not grow"


def _done(observation: Observation) -> float:
    sample = observation.samples.get("job")
    return 0.0 if sample is None else sample.done or 0.0


@pytest.mark.soak
def test_without_a_row_limit_a_job_that_falls_behind_is_seen_to(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    """60 records/s arrive and one executor can do 20: batches grow without end, and each admits all there is."""
    job = SteadyJob(tmp_path, "constant:60", seconds=60.0, cost_s=0.05, trigger_interval_s=1.0, partitions=6)
    query = job.start(spark)
    watched = Watched(engine)
    with running(query):
        eventually("a batch", lambda: watched.look() is not None and bool(query.recentProgress))
        samples = watched.looks(10.0)
    backlogs = [sample.backlog or 0.0 for sample in samples]
    # What arrives less what is done; what is done is seen task by task.
    assert 200 < backlogs[-1] - backlogs[0] <= 1.1 * 60 * (samples[-1].at_s - samples[0].at_s)
    assert samples[-1].running_s is not None
    assert (samples[-1].latency_s or 0.0) > samples[-1].running_s
    for sample in samples:
        assert sample.input_rate_per_s == pytest.approx(60, rel=0.1)
        assert ThroughputSlo(0.95).violated_by(sample)
        assert SlowShareSlo(0.05).violated_by(sample)


@pytest.mark.soak
def test_common_idioms_do_not_blind_it(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """50 records/s arrive and 20 a second are let in. One looks whether there is anything first, one writes twice what
    it reads twice, and one reads its source at two places, for which Spark lists it twice and reports it once."""

    def looks_first(rows: DataFrame, _: int) -> None:
        if not rows.isEmpty():
            rows.write.format("noop").mode("overwrite").save()

    def writes_once(rows: DataFrame, _: int) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def writes_twice(rows: DataFrame, batch: int) -> None:
        writes_once(rows, batch)
        writes_once(rows, batch)

    spark.dataSource.register(LoadSource)
    started_s = time.time() + 5.0  # When everything is set up: of what was there before nobody knows since when.

    def start(name: str, write: Callable[[DataFrame, int], None], *, places: int = 1) -> StreamingQuery:
        options = {"workload": "constant:50", "partitions": "3", "max_rows_per_batch": "20"}
        rows = spark.readStream.format(LoadSource.name()).options(started_s=str(started_s), **options).load()
        return (
            functools.reduce(DataFrame.union, [rows] * places)
            .writeStream.foreachBatch(write)
            .queryName(name)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(processingTime="1 second")
            .start()
        )

    queries = {
        "looks first": start("looks first", looks_first),
        "writes twice": start("writes twice", writes_twice),
        "self-union": start("self-union", writes_once, places=2),
    }
    watched = Watched(engine)
    with running(*queries.values()):
        eventually("batches", lambda: watched.look() is not None and min(map(len, map(_read, queries.values()))) > 3)
        read = {name: _read(query)[-1] for name, query in queries.items()}
        for _ in range(10):
            sample = watched.look()
            assert sample is not None
            for name, query in queries.items():
                part, done = sample.parts[name], _done_offset(query)
                arrived = 50 * (part.at_s - started_s)
                # A batch may be under way, or have ended meanwhile.
                assert part.backlog == pytest.approx(arrived - done, rel=0.1, abs=25), name
                assert part.input_rate_per_s == pytest.approx(50, rel=0.1), name
                waited_s = part.at_s - (started_s + done / 50)
                assert part.latency_s == pytest.approx(waited_s, rel=0.1, abs=25 / 50), name
            time.sleep(0.5)
    assert read["writes twice"] == read["self-union"] == 40, "the idioms that are meant: rows are read twice"
    assert read["looks first"] > 20


def _read(query: StreamingQuery) -> list[int]:
    """Rows that each batch has read."""
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def _done_offset(query: StreamingQuery) -> int:
    progress = query.lastProgress
    assert progress is not None
    return int(json.loads(progress.sources[0].endOffset)["records"])


def test_the_first_batch_is_seen_while_it_runs_also_after_a_restart(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    """4,000 records wait, and one executor would take 100 s for them."""
    job = SteadyJob(
        tmp_path, "constant:1", seconds=60.0, cost_s=0.025, trigger_interval_s=1.0, partitions=8, prefill=4000
    )
    began_s = time.time()
    for _ in range(2):  # Records that nobody has worked on wait also while the job is away.
        query = job.start(spark)
        watched = Watched(engine)
        with running(query):
            eventually("a reading of the batch", lambda watched=watched: _runs(watched.look()), 15.0)  # type: ignore[misc]
            sample = watched.looks(3.0)[-1]
        assert 3000 < (sample.backlog or 0) < 4100
        assert 2.0 < (sample.latency_s or 0.0) <= time.time() - began_s
        assert sample.batch_ended_s is None


def _runs(sample: Sample | None) -> bool:
    return sample is not None and sample.running_s is not None


def test_queries_of_other_sessions_are_seen_and_some_can_be_left_out(spark: SparkSession, engine: SparkEngine) -> None:
    engine.close()

    def start(session: SparkSession, name: str) -> StreamingQuery:
        rows = session.readStream.format("rate").option("rowsPerSecond", "10").load()
        return rows.writeStream.format("noop").queryName(name).trigger(processingTime="1 second").start()

    queries = [start(spark, "enrich"), start(spark.newSession(), "elsewhere"), start(spark.newSession(), "maintenance")]
    with running(*queries), closing(SparkEngine(spark, take_over=True, queries=["!maintenance"])) as chosen:
        eventually("both", lambda: _parts(chosen) == {"enrich", "elsewhere"}, 15.0)
        with closing(SparkEngine(spark, take_over=True)) as every:
            eventually("all", lambda: _parts(every) == {"enrich", "elsewhere", "maintenance"}, 15.0)


@pytest.mark.soak
def test_files_that_wait_are_a_backlog(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """Spark counts the batches of such a source, and not its records: 40 files of 50 wait, and batches take two."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.json").write_text("\n".join(f'{{"id": {50 * number + row}}}' for row in range(50)))
    began_s = time.time()
    events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(str(folder))
    query = (
        events.mapInArrow(working(0.02), events.schema)
        .writeStream.format("json")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "output"))
    )
    watched = Watched(engine)
    with running(query):
        eventually("two batches", lambda: watched.look() is not None and len(query.recentProgress) >= 2)
        for sample in watched.looks(6.0):
            assert (sample.done or 0) + (sample.backlog or 0) == pytest.approx(2000, abs=100)
            assert sample.arrived == pytest.approx(2000, abs=100)
            assert sample.latency_s == pytest.approx(sample.at_s - began_s, abs=2.0)


def _parts(engine: SparkEngine) -> set[str]:
    sample = engine.observe().samples.get("job")
    return set() if sample is None else set(sample.parts)


def test_a_second_autoscaler_is_refused_unless_it_takes_over(spark: SparkSession) -> None:
    def start(*, take_over: bool) -> headgate.Autoscaler:
        return headgate.autoscale(spark, policy="static", executors=(1, 1), take_over=take_over)

    first = start(take_over=True)
    with pytest.raises(InputError, match=r"is scaled by another autoscaler of this process already; .*take_over=True"):
        start(take_over=False)
    assert first.is_alive
    second = start(take_over=True)
    assert (first.is_alive, second.is_alive) == (False, True)
    second.stop()
    with start(take_over=True) as third:
        assert third.is_alive, "one that has stopped is in nobody's way"


@pytest.mark.parametrize("how", ["killed", "decommissioned"])
def test_an_executor_that_somebody_else_takes_away_is_missed_at_once_and_replaced(
    spark: SparkSession, engine: SparkEngine, how: str
) -> None:
    victim, process = min(executor_processes().items())
    if how == "killed":
        process.send_signal(signal.SIGKILL)
    else:
        assert engine._backend.drain(victim)
    # At once: Spark itself takes two minutes to miss an executor that has gone without a word.
    eventually("it to be missed", lambda: size(engine) == Instances(planned=1, requested=1, ready=0), 15.0)
    eventually("a replacement", lambda: size(engine) == Instances(1, 1, 1))
    eventually("its process to be gone", lambda: victim not in executor_processes(), 15.0)


def test_other_resource_profiles_keep_their_executors_across_a_resize(spark: SparkSession, engine: SparkEngine) -> None:
    """The other profile is requested by hand; Spark does so itself for a job that needs it."""
    context: Any = spark.sparkContext._jsc.sc()
    backend = engine._backend
    profile: Any = ResourceProfileBuilder().require(ExecutorResourceRequests().cores(1).memory("512m")).build
    context.resourceProfileManager().addResourceProfile(profile._java_resource_profile)

    def of_profile() -> set[str]:
        listed = context.statusStore().executorList(True)
        alive = (listed.apply(index) for index in range(listed.size()))
        return {executor.id() for executor in alive if executor.resourceProfileId() == profile.id}

    others: set[str] = set()
    try:
        backend._request_totals({DEFAULT_PROFILE: 1, profile.id: 1})
        eventually("its executor", lambda: len(of_profile()) == 1)
        others = of_profile()
        engine.apply(decision(size(engine), 2))
        assert backend._totals.read() == {DEFAULT_PROFILE: 2, profile.id: 1}
        eventually("one more of ours", lambda: size(engine) == Instances(2, 2, 2))
        assert of_profile() == others
    finally:
        backend._request_totals({DEFAULT_PROFILE: 2, profile.id: 0})
        backend.kill(list(others))


def test_a_master_that_hangs_fails_a_decision_within_seconds_and_it_is_made_again(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    engine.close()
    master = master_process()
    seen: list[Observation] = []
    with headgate.autoscale(
        spark,
        policy="static",
        settings={"instances": 1},
        executors=(1, 2),
        interval=0.5,
        journal=tmp_path / "journal.db",
        take_over=True,
    ) as autoscaler:
        autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
        master.send_signal(signal.SIGSTOP)
        try:
            autoscaler.change_policy("static", {"instances": 2})
            time.sleep(8)
        finally:
            master.send_signal(signal.SIGCONT)
        frozen = len(seen)
        eventually("two executors", lambda: seen[-1].instances["job"] == Instances(2, 2, 2))
    with closing(SqliteJournal.read(tmp_path / "journal.db")) as reader:
        receipts = reader.receipts()
    failed = [receipt for receipt in receipts if receipt.outcome is Outcome.FAILED]
    assert "has not answered a request for 2 executors within 5s" in failed[0].detail
    assert len(failed) > 2, "it is tried at each decision, without another wait"
    assert frozen > 3, "it goes on observing"
    assert {observation.instances["job"].planned for observation in seen[:frozen]} == {1}, "what failed is not the plan"
    assert any(receipt.outcome is Outcome.ACCEPTED for receipt in receipts if receipt.at_s > failed[-1].at_s)
