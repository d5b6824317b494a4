"""Records into a topic, with confluent-kafka: none is doubled by a retry, and none is lost without being counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.local.topics import require_topic
from headgate.workloads.payloads import Record
from headgate.workloads.replay import Answers

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

MOMENT_S = 0.1
"""How long is waited for room, or for answers, before the caller gets a say again."""
SETTINGS: dict[str, str | int | float | bool] = {
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
        self._producer = Producer(SETTINGS | {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms})
        self._taken = 0
        self._reasons: Counter[str] = Counter()

    def send(self, records: Sequence[Record]) -> int:
        produce, topic, failed = self._producer.produce, self._topic, self._failed
        taken = 0
        for key, value in records:
            try:
                produce(topic, value, key, -1, failed)
            except BufferError:
                self._producer.poll(MOMENT_S)
                break
            except self._refusal as error:
                # The library itself does not take this one; it counts as sent and refused.
                self._reasons[_reason(error.args[0])] += 1
            taken += 1
        self._taken += taken
        self._producer.poll(0)
        return taken

    def answers(self) -> Answers:
        self._producer.poll(0)
        failed = self._reasons.total()
        return Answers(self._taken - failed - len(self._producer), failed, dict(self._reasons))

    def flush(self) -> None:
        while self._producer.flush(MOMENT_S):
            pass

    def _failed(self, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            self._reasons[_reason(error)] += 1


def _reason(error: KafkaError) -> str:
    """What the code says, without what the library adds from case to case."""
    plain = type(error)(error.code()).str()
    return f"{plain.removeprefix('Broker: ').removeprefix('Local: ')} ({error.name()})"
