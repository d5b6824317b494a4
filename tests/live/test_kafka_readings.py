"""What a Kafka source says of itself: since when records wait that were there before, and nothing while it is away."""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core.types import Sample
from headgate.engines.spark import SparkEngine
from headgate.local.kafka import LocalKafka
from tests.live.records import produce
from tests.live.support import Watched, broker_process, eventually
from tests.live.truth import PARTITIONS, start_job

RECORDS = 800
WAITING_S = 60.0
COST_S = 0.2


def test_earlier_records_have_waited_since_they_arrived_and_a_hanging_broker_delays_nothing(
    spark: SparkSession, engine: SparkEngine, kafka: LocalKafka, tmp_path: Path
) -> None:
    """The first batch takes 160 s, and the records have been waiting for a minute when the job starts: so long ago
    that nobody takes more to be arriving."""
    topic = f"in-{uuid.uuid4().hex}"
    kafka.create_topic(topic, PARTITIONS)
    kafka.create_topic(f"out-{topic}", PARTITIONS)
    arrived_s = time.time() - WAITING_S
    produce(kafka, topic, range(RECORDS), arrived_s)
    query = start_job(spark, kafka.bootstrap, topic, f"out-{topic}", tmp_path, COST_S)
    watched = Watched(engine)
    broker = broker_process()
    try:
        eventually("a reading", lambda: watched.look() is not None, 20.0)
        before = _sample_of(watched)
        assert before.backlog == RECORDS
        assert before.latency_s == pytest.approx(before.at_s - arrived_s, rel=0.1)
        broker.send_signal(signal.SIGSTOP)
        began_s = time.monotonic()
        looks, without = 0, before
        while time.monotonic() - began_s < 4:
            without = _sample_of(watched)
            looks += 1
            time.sleep(0.2)
        broker.send_signal(signal.SIGCONT)
        assert looks > 8, "no look waits for it"
        assert without.age_s == pytest.approx(without.at_s - before.at_s, abs=1.0)
        assert without.backlog == RECORDS
        assert without.latency_s == pytest.approx(without.at_s - arrived_s, rel=0.1)
        eventually("an answer", lambda: _sample_of(watched).age_s == 0, 15.0)
    finally:
        broker.send_signal(signal.SIGCONT)
        query.stop()


def test_a_topic_counts_once_for_each_source_that_reads_it_at_however_many_places(
    spark: SparkSession, engine: SparkEngine, kafka: LocalKafka, tmp_path: Path
) -> None:
    """A stream that is joined to itself in any way is one source to Spark; one that is loaded twice is two."""
    topic = f"in-{uuid.uuid4().hex}"
    kafka.create_topic(topic, 2)
    produce(kafka, topic, range(20))

    def load() -> DataFrame:
        options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", 20).load()

    def start(name: str, rows: DataFrame) -> StreamingQuery:
        writer = rows.writeStream.format("noop").queryName(name).option("checkpointLocation", str(tmp_path / name))
        return writer.trigger(processingTime="200 milliseconds").start()

    stream = load()
    queries = [start("read twice", stream.union(stream)), start("loaded twice", load().union(load()))]
    watched = Watched(engine)

    def all_are_read(records: int) -> bool:
        """By two readers in each of the queries."""
        sample = watched.look()
        rows = [sum(progress.numInputRows for progress in query.recentProgress) for query in queries]
        return sample is not None and rows == [2 * records] * len(queries)

    def counted() -> dict[str, tuple[float, float, float]]:
        parts = _sample_of(watched).parts
        return {name: (part.arrived or 0.0, part.done or 0.0, part.backlog or 0.0) for name, part in parts.items()}

    try:
        eventually("what was there before", lambda: all_are_read(20), 30.0)
        before = counted()
        produce(kafka, topic, range(60))
        eventually("what came since", lambda: all_are_read(80), 30.0)
        after = counted()
        for name, sources in (("read twice", 1), ("loaded twice", 2)):
            arrived, done, waiting = (now - then for now, then in zip(after[name], before[name], strict=True))
            assert (arrived, done, waiting) == (60.0 * sources, 60.0 * sources, 0.0), name
            assert after[name][2] == 0, name
    finally:
        for query in queries:
            query.stop()


def _sample_of(watched: Watched) -> Sample:
    sample = watched.look()
    assert sample is not None
    return sample
