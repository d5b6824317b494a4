"""Readings of one Structured Streaming query, made from the progress events that Spark reports. No JVM is needed here.

Under admission control Spark's own ``inputRowsPerSecond`` is what was let in, not what arrived. Where the offsets of
all sources count records, arrivals and lag are taken from the offsets instead; whether they do is checked on every
batch, by comparing the rows that were read with the distance between the batch's offsets.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.types import Instant

# Compacted and transactional topics have offsets without a record; more gaps than this and offsets tell little.
_LEAST_RECORDS_PER_OFFSET = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """One finished micro-batch, in the loop's time."""

    started_s: Instant
    ended_s: Instant
    records: int
    input_rate_per_s: float | None
    processed_rate_per_s: float | None
    backlog: float | None
    scheduling_delay_s: float
    trigger_interval_s: float

    @property
    def processing_time_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def latency_s(self) -> float:
        return self.scheduling_delay_s + self.processing_time_s


class QueryTracker:
    """Follows one run of one query."""

    def __init__(self, trigger_interval_s: float) -> None:
        self.trigger_interval_s = trigger_interval_s
        self.batches = 0
        self.last: Batch | None = None
        # (time, records that had arrived by then), as known at the start of each batch
        self._arrivals: deque[tuple[Instant, float]] = deque()

    def on_progress(self, progress: Mapping[str, Any], received_s: Instant) -> Batch:
        """Take in one progress event (its JSON, parsed). Times come from the receipt: Spark's wall times may jump."""
        duration_s = progress["durationMs"].get("triggerExecution", 0) / 1000
        started_s = received_s - duration_s
        records = sum(int(source["numInputRows"]) for source in progress["sources"])
        start, end, latest = (
            _records(progress["sources"], key) for key in ("startOffset", "endOffset", "latestOffset")
        )
        trusted = (
            end is not None
            and latest is not None
            and latest >= end
            and _counts_records(records, end - start if start is not None else None)
        )
        if trusted and end is not None and latest is not None:
            input_rate = self._arrived(started_s, latest)
            backlog: float | None = latest - end
            delay_s = self._scheduling_delay_s(started_s, start if start is not None else end)
        else:
            self._arrivals.clear()
            input_rate = self._admitted_rate(started_s, records)
            backlog, delay_s = None, self._lateness_s(started_s)
        self.last = Batch(
            started_s=started_s,
            ended_s=received_s,
            records=records,
            input_rate_per_s=input_rate,
            processed_rate_per_s=records / duration_s if duration_s > 0 and records else None,
            backlog=backlog,
            scheduling_delay_s=delay_s,
            trigger_interval_s=self.trigger_interval_s,
        )
        self.batches += bool(records)
        return self.last

    def on_idle(self, received_s: Instant) -> Batch:
        """Take in that Spark found nothing to do."""
        self._arrivals.clear()
        self.last = Batch(received_s, received_s, 0, 0.0, None, 0.0, 0.0, self.trigger_interval_s)
        return self.last

    def _arrived(self, at_s: Instant, latest: float) -> float | None:
        """Records per second that arrived between the start of the last batch and the start of this one."""
        before = self._arrivals[-1] if self._arrivals else None
        if before is None or at_s > before[0]:
            self._arrivals.append((at_s, latest))
        if before is None or at_s <= before[0]:
            return None
        return max(0.0, (latest - before[1]) / (at_s - before[0]))

    def _scheduling_delay_s(self, started_s: Instant, first_record: float) -> float:
        """How long the oldest record of the batch had waited at its start, beyond one trigger interval."""
        while len(self._arrivals) > 2 and self._arrivals[1][1] <= first_record:
            self._arrivals.popleft()
        if len(self._arrivals) < 2:
            return self._lateness_s(started_s)
        (from_s, before), (until_s, after) = self._arrivals[0], self._arrivals[1]
        if first_record < before:
            arrived_s = from_s  # Before the first batch was seen; it has waited since then at least.
        else:
            share = (first_record - before) / (after - before) if after > before else 1.0
            arrived_s = from_s + min(1.0, share) * (until_s - from_s)
        return max(0.0, started_s - arrived_s - self.trigger_interval_s)

    def _lateness_s(self, started_s: Instant) -> float:
        """Without offsets: how much later than its trigger the batch could start."""
        if self.last is None or not self.trigger_interval_s:
            return 0.0
        return max(0.0, started_s - self.last.started_s - self.trigger_interval_s)

    def _admitted_rate(self, started_s: Instant, records: int) -> float | None:
        if self.last is None or started_s <= self.last.started_s:
            return None
        return records / (started_s - self.last.started_s)


def _records(sources: list[Mapping[str, Any]], key: str) -> float | None:
    """The records up to an offset, summed over all sources and partitions; ``None`` where one of them has no number."""
    total = 0.0
    for source in sources:
        offset = source.get(key)
        count = _leaves(json.loads(offset) if isinstance(offset, str) and offset else offset)
        if count is None:
            return None
        total += count
    return total


def _leaves(offset: object) -> float | None:
    if isinstance(offset, Mapping):
        counts = [_leaves(part) for part in offset.values()]
        return None if not counts or None in counts else sum(count for count in counts if count is not None)
    if isinstance(offset, int | float) and not isinstance(offset, bool):
        return float(offset)
    return None


def _counts_records(records: int, distance: float | None) -> bool:
    if distance is None:
        return True  # The very first batch has no start offset; the next one will tell.
    if distance <= 0:
        return records == 0
    return _LEAST_RECORDS_PER_OFFSET <= records / distance <= 1
