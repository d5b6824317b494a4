"""Applications in Flink SQL: what comes out is what a batch computation finds in the same records, also when the job is
given other sizes, and when a TaskManager and the JobManager are killed with -9."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.flink.programs import PROGRAMS, SLOW_MIDDLE, SubmittedJob, check_results
from headgate.apps.flink.sources import FileRecords, TopicRecords, write_records
from headgate.apps.flink.submission import submit
from headgate.core.errors import EngineError
from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import drain
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink, topic_values
from headgate.runtime.loop import SystemClock
from headgate.workloads.load import Load
from headgate.workloads.payloads import DEFAULT
from headgate.workloads.replay import Replay
from tests.live.flink_jobs import RunningJob, cancel
from tests.live.support import eventually

START_MS = 1_700_000_000_000


def test_an_application_that_grows_gives_what_a_batch_computes(
    flink: LocalFlink, spark: SparkSession, tmp_path: Path
) -> None:
    records, results = tmp_path / "records.json", tmp_path / "results"
    write_records(Load("constant:200", "click-fraud", 300.0, keys=50), records, START_MS)
    job = SubmittedJob("click-fraud", FileRecords(records), "grows", results)
    running = RunningJob(flink, submit(job, flink.url))
    eventually("the windows that the records close", lambda: _count(results) >= 2 * 50 * 4, 60.0)
    running.resize(2)
    drain(flink.url, running.id)
    found = check_results(spark, "click-fraud", records, results)
    assert found.is_exact, found
    assert found.expected > 500


def _count(results: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in results.glob("part-*"))


# ---------------------------------------------------------------------------------------------------------------- soak

SIZES = (2, 1, 3, 2, 4, 1, 4, 2, 3, 1)
PARTITIONS = 4
SPEED = {"click-fraud": 8.0, "nexmark-5": 2.0}
"""Times the clock, so that long windows close too."""


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_exact_through_ten_sizes_and_two_kills(
    program: str, flink: LocalFlink, kafka: LocalKafka, spark: SparkSession, tmp_path: Path
) -> None:
    kafka.create_topic(program, PARTITIONS)
    speed = SPEED.get(program, 1.0)
    load = Load(f"constant:{400 / speed}", DEFAULT if program == SLOW_MIDDLE else program, 75 * speed, speed, keys=50)
    stop = threading.Event()
    sink = TopicSink(kafka.bootstrap, program)
    replay = Replay(load, load.make_payloads(), sink, SystemClock(), start_ms=START_MS)
    feeder = threading.Thread(target=replay.run, args=(stop,), daemon=True)
    feeder.start()
    results = tmp_path / "results"
    job = SubmittedJob(program, TopicRecords(kafka.bootstrap, program), program, results, cost_ms=1.0)
    running = RunningJob(flink, submit(job, flink.url))
    try:
        _disturb(running, flink)
        feeder.join(200)
        assert not feeder.is_alive()
        eventually("all records to be read", lambda: running.pending() == 0, 120.0)
        time.sleep(3)  # What was read last is on its way, and the next figures must say the same.
        assert running.pending() == 0
        drain(flink.url, running.id)
    finally:
        stop.set()
        cancel(flink, program)
    records = tmp_path / "records.json"
    with records.open("wb") as file:
        file.writelines(b"%b\n" % value for value in topic_values(kafka.bootstrap, program))
    found = check_results(spark, program, records, results)
    assert found.is_exact, found
    assert found.expected > 10


def _disturb(running: RunningJob, flink: LocalFlink) -> None:
    """Ten other sizes; a TaskManager is killed after the fourth, the JobManager after the seventh."""
    for number, size in enumerate(SIZES, start=1):
        sizes = running.resize(size)
        if number == 4:
            running.servers(f"taskmanager.resource-id={running.at_work_on()}")[0].kill()
        if number == 7:
            running.servers("StandaloneSession")[0].kill()
        if number in (4, 7):
            eventually("the fault to be seen", lambda: not running.sizes(), 30.0)
            eventually("all TaskManagers", lambda: _all_there(flink), 90.0)
            running.await_sizes(sizes)


def _all_there(flink: LocalFlink) -> bool:
    try:
        return {taskmanager.id for taskmanager in flink.cluster.taskmanagers()} == set(flink.cluster.wanted())
    except EngineError:
        return False
