"""What is in a topic, with confluent-kafka: how far its partitions reach, and its records, beside any job."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError
from headgate.local.topics import require_topic, topics

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TIMEOUT_S = 10.0
AT_ONCE = 100_000

Reach = Mapping[int, int]
"""An offset of each partition."""


def reach(bootstrap: str, topic: str) -> tuple[Reach, Reach]:
    """The first offset of each partition of a topic, and the one that comes after the last."""
    require_topic(bootstrap, topic)
    partitions = range(topics(bootstrap)[topic])
    with _consumer(bootstrap, topic) as consumer:
        bounds = {number: _bounds(consumer, topic, number) for number in partitions}
    return {number: first for number, (first, _) in bounds.items()}, {
        number: end for number, (_, end) in bounds.items()
    }


def values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """The values of all records that are in a topic now."""
    return (value for value, _ in stamped_values(bootstrap, topic))


def stamped_values(bootstrap: str, topic: str) -> Iterator[tuple[bytes, float]]:
    """The values of all records that are in a topic now, each with its time in seconds since the epoch."""
    from confluent_kafka import TopicPartition

    starts, ends = reach(bootstrap, topic)
    left = {number: end for number, end in ends.items() if end > starts[number]}
    count = sum(end - starts[number] for number, end in left.items())
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, number, starts[number]) for number in left])
        while left:
            # It waits for as many as it is asked for; some offsets may be without a record.
            some = consumer.consume(max(1, min(count, AT_ONCE)), timeout=TIMEOUT_S)
            count -= len(some)
            if not some:
                raise EngineError(f"topic {topic!r} at {bootstrap} cannot be read to its end within {TIMEOUT_S:g} s.")
            for message in some:
                yield _value(message, left), message.timestamp()[1] / 1000


def _value(message: Message[bytes, bytes], left: dict[int, int]) -> bytes:
    number, offset = message.partition(), message.offset()
    if message.error() is not None or number is None or offset is None:
        raise EngineError(f"topic {message.topic()!r} cannot be read: {message.error()}.")
    if offset + 1 >= left.get(number, 0):
        left.pop(number, None)
    return message.value() or b""


def _bounds(consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    from confluent_kafka import TopicPartition

    found = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
    if found is None:
        raise EngineError(f"how far partition {number} of topic {topic!r} reaches is not told within {TIMEOUT_S:g} s.")
    return found


@contextmanager
def _consumer(bootstrap: str, topic: str) -> Iterator[Consumer]:
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        # A group of its own, of which nothing is kept.
        "group.id": f"headgate-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    try:
        with closing(Consumer(settings)) as consumer:
            yield consumer
    except KafkaException as error:
        raise EngineError(
            f"topic {topic!r} at {bootstrap} cannot be read: {error.args[0].str().rstrip('.')}."
        ) from error
