"""The records of a topic, by confluent-kafka: read outside any job, and written without loss or duplicates."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError
from headgate.local.topics import require_topic, topics
from headgate.workloads.payloads import Record
from headgate.workloads.replay import Answers

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

READ_TIMEOUT_S = 10.0
AT_ONCE = 100_000

Offsets = Mapping[int, int]
"""An offset of each partition."""


def topic_offsets(bootstrap: str, topic: str) -> tuple[Offsets, Offsets]:
    """Return the first offset of each partition of a topic, and the offset after the last."""
    require_topic(bootstrap, topic)
    partitions = range(topics(bootstrap)[topic])
    with _consumer(bootstrap, topic) as consumer:
        bounds = {number: _bounds(consumer, topic, number) for number in partitions}
    return {number: first for number, (first, _) in bounds.items()}, {
        number: end for number, (_, end) in bounds.items()
    }


def topic_values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield the values of all records that are in a topic now."""
    return (value for value, _ in timestamped_values(bootstrap, topic))


def timestamped_values(bootstrap: str, topic: str) -> Iterator[tuple[bytes, float]]:
    """Yield the values of all records that are in a topic now, each with its time in seconds since the epoch."""
    from confluent_kafka import TopicPartition

    starts, ends = topic_offsets(bootstrap, topic)
    left = {number: end for number, end in ends.items() if end > starts[number]}
    count = sum(end - starts[number] for number, end in left.items())
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, number, starts[number]) for number in left])
        while left:
            # The call waits for the requested number; some offsets may have no record.
            some = consumer.consume(max(1, min(count, AT_ONCE)), timeout=READ_TIMEOUT_S)
            count -= len(some)
            if not some:
                raise EngineError(
                    f"topic {topic!r} at {bootstrap} cannot be read to its end within {READ_TIMEOUT_S:g} s."
                )
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

    found = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=READ_TIMEOUT_S)
    if found is None:
        raise EngineError(
            f"the offsets of partition {number} of topic {topic!r} were not received within {READ_TIMEOUT_S:g} s."
        )
    return found


@contextmanager
def _consumer(bootstrap: str, topic: str) -> Iterator[Consumer]:
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        # A group of its own, which stores no offsets.
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


POLL_S = 0.1
"""How long is waited for room, or for answers, before the caller gets a say again."""
PRODUCER_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    # Long enough for batches of hundreds at the rates where that matters, and below what anybody notices.
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 200_000,
    # The partitions that Java's clients give the same keys.
    "partitioner": "murmur2_random",
    # A call for each record that went well would cost as much as sending it; those are counted by what is left.
    "delivery.report.only.error": True,
    # Its own log would tell of every attempt; the answers tell what came of them.
    "log_level": 0,
}


class TopicSink:
    """Where a replayer sends its records: one topic, which has to be there.

    A record that is not acknowledged within ``answer_within_s`` counts as failed.
    """

    def __init__(self, bootstrap: str, topic: str, *, answer_within_s: float = 30.0) -> None:
        require_topic(bootstrap, topic)
        from confluent_kafka import KafkaException, Producer

        self._topic = topic
        self._refusal = KafkaException
        timeout_ms = round(answer_within_s * 1000)
        self._producer = Producer(
            PRODUCER_SETTINGS | {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms}
        )
        self._taken = 0
        self._reasons: Counter[str] = Counter()

    def send(self, records: Sequence[Record]) -> int:
        produce, topic, failed = self._producer.produce, self._topic, self._failed
        taken = 0
        for key, value in records:
            try:
                produce(topic, value, key, -1, failed)
            except BufferError:
                self._producer.poll(POLL_S)
                break
            except self._refusal as error:
                # The library itself does not take this one; it counts as sent and refused.
                self._reasons[_error_reason(error.args[0])] += 1
            taken += 1
        self._taken += taken
        self._producer.poll(0)
        return taken

    def answers(self) -> Answers:
        self._producer.poll(0)
        failed = self._reasons.total()
        return Answers(self._taken - failed - len(self._producer), failed, dict(self._reasons))

    def flush(self) -> None:
        while self._producer.flush(POLL_S):
            pass

    def _failed(self, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            self._reasons[_error_reason(error)] += 1


def _error_reason(error: KafkaError) -> str:
    """What the code says, without what the library adds from case to case."""
    plain = type(error)(error.code()).str()
    return f"{plain.removeprefix('Broker: ').removeprefix('Local: ')} ({error.name()})"
