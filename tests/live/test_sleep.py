"""A job that may be without executors: it sleeps when nothing comes, and the first record that waits wakes it."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

import headgate
from headgate.core.types import Instances, Observation
from headgate.engines.spark import SparkEngine
from headgate.journal.sqlite import SqliteJournal
from headgate.local.kafka import LocalKafka
from tests.live.records import contents, produce
from tests.live.support import eventually, executor_processes
from tests.live.truth import PARTITIONS, start_job

EARLIER = 40


def test_an_idle_job_holds_no_executor_and_the_first_record_wakes_it(
    spark: SparkSession, engine: SparkEngine, kafka: LocalKafka, tmp_path: Path
) -> None:
    """It has done a batch when it is first looked at, so that it is known how long work takes."""
    engine.close()
    topic = f"in-{uuid.uuid4().hex}"
    kafka.create_topic(topic, PARTITIONS)
    kafka.create_topic(f"out-{topic}", PARTITIONS)
    produce(kafka, topic, range(EARLIER))
    query = start_job(spark, kafka.bootstrap, topic, f"out-{topic}", tmp_path / "checkpoint", cost_s=0.01)
    seen: list[Observation] = []
    try:
        query.processAllAvailable()
        with headgate.autoscale(
            spark,
            "latency p95 < 30s",
            executors=(0, 2),
            settings={"scale_in_window_s": 5.0},
            interval=1.0,
            journal=tmp_path / "journal.db",
            take_over=True,
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            eventually("no executor", lambda: not executor_processes() and _sizes(seen) == Instances(0, 0, 0))
            produce(kafka, topic, [EARLIER])
            eventually("an executor", lambda: _sizes(seen) == Instances(1, 1, 1))
            query.processAllAvailable()
    finally:
        query.stop()
    assert contents(kafka, f"out-{topic}") == Counter(range(EARLIER + 1))
    with closing(SqliteJournal.read(tmp_path / "journal.db")) as reader:
        changes = [(one.current, one.target) for all_ in reader.decisions() if (one := all_.verdicts["job"]).change]
    assert changes == [(1, 0), (0, 1)]


def _sizes(seen: list[Observation]) -> Instances | None:
    return seen[-1].instances["job"] if seen else None
