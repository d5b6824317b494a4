"""Asking sources how far they have come by now, where they offer a way.

Kafka's brokers are asked. A source of one's own can offer a function of its options::

    offers("my-source", lambda options: newest_offset_as_json_or_none)

Where nothing is offered, what Spark reports when it plans a batch is all that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from py4j.protocol import Py4JError

from headgate.core.types import Instant
from headgate.engines.spark.kafka import KafkaOffsets, told
from headgate.engines.spark.snapshots import Asked, Query, Source

logger = logging.getLogger("headgate")

NewestOffset: TypeAlias = Callable[[Mapping[str, str]], str | None]
"""The newest offset of a source with these options, as the JSON that Spark would report; ``None`` if unknown."""
_OFFERED: dict[str, NewestOffset] = {}


def offers(kind: str, newest: NewestOffset) -> None:
    """Make known how sources of a kind, as in ``readStream.format(kind)``, can be asked. Called from the loop's thread,
    it must answer at once."""
    _OFFERED[kind] = newest


class SourceOffsets:
    """Asks the sources of queries that can be asked."""

    def __init__(self, jvm: Any, now: Callable[[], Instant]) -> None:
        self._jvm = jvm
        self._now = now
        self._kafka: dict[tuple[str, int], KafkaOffsets | None] = {}
        self._asked_for_past: set[tuple[str, int]] = set()

    def ask(self, query: Query) -> list[Asked]:
        """What each source of a query says of itself."""
        return [self._ask(query, index, source) for index, source in enumerate(query.sources)]

    def _ask(self, query: Query, index: int, source: Source) -> Asked:
        if source.kind in _OFFERED:
            return Asked(source.offsets(_OFFERED[source.kind](source.options)))
        known = source.offsets(query.latest[index] or query.end[index])
        if source.kind != "kafka" or not known:
            return Asked()
        key = (query.run_id, index)
        if key not in self._kafka:
            self._kafka[key] = self._opened(source)
        probe = self._kafka[key]
        newest = None if probe is None else probe.newest(tuple(known))
        if probe is None or newest is None or key in self._asked_for_past:
            return Asked(newest)
        self._asked_for_past.add(key)
        done = source.offsets(query.start[index] or query.committed[index]) or source.first_offsets(known)
        return Asked(newest, tuple(probe.past(newest, done)))

    def _opened(self, source: Source) -> KafkaOffsets | None:
        try:
            return KafkaOffsets(self._jvm, source, self._now)
        except (Py4JError, TypeError) as error:
            logger.warning("Kafka cannot be asked how far its topics have come: %s", told(error))
            return None

    def forget_all_but(self, run_ids: set[str]) -> None:
        """Let go of the clients of queries that have ended."""
        for key in [key for key in self._kafka if key[0] not in run_ids]:
            probe = self._kafka.pop(key)
            self._asked_for_past.discard(key)
            if probe is not None:
                probe.close()

    def close(self) -> None:
        self.forget_all_but(set())
