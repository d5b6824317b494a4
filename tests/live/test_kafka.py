"""Topics on a real broker, and a real query that reads one and writes another."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from headgate.core.errors import InputError
from headgate.local.kafka import LocalKafka
from tests.live.records import contents, produce

RECORDS = 5_000


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{uuid.uuid4().hex}"


def test_a_query_reads_a_topic_and_writes_another_exactly(
    spark: SparkSession, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=4)
    kafka.create_topic(f"{topic}-out", partitions=2)
    produce(kafka, topic, range(RECORDS))
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000")
        .load()
        .selectExpr("CAST(CAST(value AS STRING) AS INT) + 1 AS n")
        .selectExpr("CAST(n AS STRING) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("topic", f"{topic}-out")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        produce(kafka, topic, range(RECORDS, RECORDS + 100))
        query.processAllAvailable()
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
    finally:
        query.stop()
    assert read == RECORDS + 100
    assert contents(kafka, f"{topic}-out") == Counter(range(1, RECORDS + 101))


def test_topics_are_made_listed_and_deleted(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)
    assert kafka.topics()[topic] == 3
    kafka.delete_topic(topic)
    assert topic not in kafka.topics()


def test_kafkas_own_topics_are_not_listed(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic)
    with closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic})) as consumer:
        # Which makes the topic where groups keep their offsets.
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    assert not [name for name in kafka.topics() if name.startswith("__")]


def test_a_broker_tells_its_release(kafka: LocalKafka) -> None:
    assert kafka.release() == "4.3"


def test_what_a_broker_refuses_is_reported(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic)
    with pytest.raises(InputError, match=rf"^topic '{topic}' was not made at {kafka.bootstrap}: .*already exists\.$"):
        kafka.create_topic(topic)
    with pytest.raises(InputError, match=r"^topic 'no such' was not made at .* is invalid"):
        kafka.create_topic("no such")
    with pytest.raises(InputError, match=r"^topic 'none' was not deleted at"):
        kafka.delete_topic("none")
    with pytest.raises(InputError, match="a topic with 0 partitions is not possible"):
        kafka.create_topic("empty", partitions=0)
