"""Putting records into topics and taking them out again, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from headgate.local.kafka import LocalKafka

TIMEOUT_S = 30.0


def produce(kafka: LocalKafka, topic: str, values: Iterable[int], at_s: float | None = None) -> None:
    """Append records, which say that they were made at a time; now, where none is given."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 20})
    for value in values:
        producer.produce(topic, str(value).encode(), timestamp=round(1000 * (at_s or 0)))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def contents(kafka: LocalKafka, topic: str) -> Counter[int]:
    """All that is in a topic now, each value with how often it is there."""
    return Counter(int(message.value() or b"") for message in messages(kafka, topic))


def messages(kafka: LocalKafka, topic: str) -> list[Message]:
    """All that is in a topic now, as it is."""
    partitions = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(kafka.topics()[topic])]
    found: list[Message] = []
    with closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "contents"})) as consumer:
        ends = [consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S) for partition in partitions]
        total = sum(end - start for start, end in ends)
        consumer.assign(partitions)
        while len(found) < total:
            # A million is the most that the library gives at once.
            some = consumer.consume(min(total - len(found), 1_000_000), timeout=TIMEOUT_S)
            assert some, f"only {len(found)} of {total} records came within {TIMEOUT_S:g} s"
            found += some
    assert not [message for message in found if message.error() is not None]
    return found
