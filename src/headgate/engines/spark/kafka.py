"""How far Kafka topics have come, asked of the brokers by the client that Spark's connector has in the driver.

A question is asked at one look and its answer taken at the next one or later, or at once where it comes within
milliseconds: a broker that does not answer must not hold up the loop. Where nothing can be asked (the client is not on
the class path, the broker is away), the readings fall back to what Spark reports, and say how old that is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from headgate.core.types import Instant
from headgate.engines.spark.offsets import Offsets, Partition
from headgate.engines.spark.snapshots import Source

logger = logging.getLogger("headgate")

ANSWER_WITHIN_S = 0.05
"""How long one look waits for an answer; brokers near by need a few milliseconds."""
REQUEST_TIMEOUT_S = 10.0
_ENTRY = re.compile(r"([^\s{]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
_OWN_OPTIONS = ("key.deserializer", "value.deserializer", "group.id", "auto.offset.reset", "enable.auto.commit")
"""Options of consumers that an admin client does not know."""


@dataclass(slots=True)
class _Question:
    future: Any
    asked_s: Instant


class KafkaOffsets:
    """The newest offsets of the topics that one source reads."""

    def __init__(self, jvm: Any, source: Source, now: Callable[[], Instant]) -> None:
        self._jvm = jvm
        self._now = now
        self._admin = self._connect(source)
        self._isolation = source.options.get("kafka.isolation.level", "read_uncommitted").upper()
        self._partitions: Any = None
        self._known: frozenset[Partition] = frozenset()
        self._question: _Question | None = None
        self._failing = False

    def _connect(self, source: Source) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in source.options.items():
            if name.startswith("kafka.") and name.removeprefix("kafka.") not in _OWN_OPTIONS:
                properties.put(name.removeprefix("kafka."), value)
        timeout_ms = str(int(1000 * REQUEST_TIMEOUT_S))
        properties.put("request.timeout.ms", timeout_ms)
        properties.put("default.api.timeout.ms", timeout_ms)
        properties.put("client.id", "headgate-offsets")
        return self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)

    def newest(self, partitions: Sequence[Partition]) -> Offsets | None:
        """How far the partitions, named as ``(topic, number)``, have come; ``None`` when no answer is there yet."""
        try:
            if self._question is None:
                self._ask(partitions)
            return self._answer()
        except Py4JError as error:
            self._question = None
            if not self._failing:
                logger.warning("Kafka does not say how far its topics have come: %s", told(error))
            self._failing = True
            return None

    def _ask(self, partitions: Sequence[Partition]) -> None:
        wanted, now = frozenset(partitions), self._now()
        if wanted != self._known:
            self._build(wanted)
            self._known = wanted
        admin = self._jvm.org.apache.kafka.clients.admin
        level = getattr(self._jvm.org.apache.kafka.common.IsolationLevel, self._isolation)
        future = self._admin.listOffsets(self._partitions, admin.ListOffsetsOptions(level)).all()
        self._question = _Question(future, now)

    def _build(self, wanted: frozenset[Partition]) -> None:
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        self._partitions = self._jvm.java.util.HashMap()
        for topic, number in sorted(wanted):
            self._partitions.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, int(number)), latest)

    def _answer(self) -> Offsets | None:
        question = self._question
        if question is None:
            return None
        try:
            milliseconds = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
            text = str(question.future.get(int(1000 * ANSWER_WITHIN_S), milliseconds).toString())
        except Py4JError:
            if not question.future.isDone():
                return None  # It is looked for again at the next look.
            raise
        late = self._now() - question.asked_s > 2 * ANSWER_WITHIN_S
        self._question, self._failing = None, False
        if late:
            return self.newest(tuple(self._known))  # The answer to an old question is old; the broker is there again.
        return {(topic, number): float(offset) for topic, number, offset in _ENTRY.findall(text) if int(offset) >= 0}

    def close(self) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofMillis(100))


def told(error: Exception) -> str:
    """What Java says of an error, in one line."""
    return str(getattr(error, "java_exception", None) or error).splitlines()[0]
