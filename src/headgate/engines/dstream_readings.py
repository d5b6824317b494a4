"""Readings of a Spark Streaming (DStream) job, made from what its listener is told. No JVM is needed here.

Every batch interval makes a batch, which waits for its turn: its scheduling delay is that wait. What has arrived and is
not done yet are the records of the batches that wait or run. Some inputs (files, queues of RDDs) never tell Spark how
many records they read, so 0 means unknown until a batch has told of some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.core.types import Instant, Sample


@dataclass(frozen=True, slots=True)
class Submitted:
    """A batch was formed."""

    batch_ms: int
    """The time that the batch is called by."""
    records: int


@dataclass(frozen=True, slots=True)
class Started:
    """A batch's turn has come."""

    batch_ms: int
    at_s: Instant
    scheduling_delay_s: float


@dataclass(frozen=True, slots=True)
class Completed:
    """A batch is done."""

    batch_ms: int
    at_s: Instant
    records: int
    scheduling_delay_s: float
    processing_time_s: float

    @property
    def started_s(self) -> Instant:
        return self.at_s - self.processing_time_s

    @property
    def latency_s(self) -> float:
        return self.scheduling_delay_s + self.processing_time_s


class DStreamReadings:
    """Follows the batches of one streaming context, whose batch interval is in seconds."""

    def __init__(self, batch_interval_s: float) -> None:
        self._interval_s = batch_interval_s
        self._waiting: dict[int, int] = {}
        self._arrived = 0
        self._counts_records = False
        self._running: Started | None = None
        self._last: Completed | None = None
        self._warming = True
        self._joined_s: Instant | None = None
        self._left_s: Instant | None = None
        self._warm_for_s: Instant | None = None
        """The joining of executors for which a full batch has been seen since."""

    @property
    def observed(self) -> Mapping[tuple[str, str], float]:
        """Nothing: observations are of data frames."""
        return {}

    def on_executors(self, joined_s: Iterable[Instant], left_s: Iterable[Instant]) -> None:
        """Take in when executors came and went."""
        self._joined_s = max(joined_s, default=None)
        self._left_s = max(left_s, default=None)

    def on_event(self, event: Submitted | Started | Completed) -> None:
        match event:
            case Submitted():
                self._waiting[event.batch_ms] = event.records
                self._arrived = event.records
                self._counts_records |= event.records > 0
            case Started():
                self._running = event
            case Completed():
                self._waiting.pop(event.batch_ms, None)
                self._running = None
                self._warming = self._is_warming(event)
                self._last = event

    def sample(self, operator: str, now: Instant, utilization: float | None) -> Sample | None:
        """The newest reading; a batch that is later than the last one was is told of before it ends."""
        last, running = self._last, self._running
        if running is not None and last is not None:
            latency_s = running.scheduling_delay_s + now - running.at_s
            if now - running.at_s > self._interval_s and latency_s > last.latency_s:
                return self._overdue(operator, now, running, utilization)
        if last is None:
            return None
        return Sample(
            operator=operator,
            at_s=last.at_s,
            input_rate_per_s=self._rate_per_s(),
            processed_rate_per_s=last.records / last.processing_time_s
            if last.records and last.processing_time_s > 0
            else None,
            backlog=self._backlog(),
            latency_s=last.latency_s,
            processing_time_s=last.processing_time_s,
            scheduling_delay_s=last.scheduling_delay_s,
            trigger_interval_s=self._interval_s,
            utilization=utilization,
            warming=self._warming,
        )

    def _overdue(self, operator: str, now: Instant, running: Started, utilization: float | None) -> Sample:
        return Sample(
            operator=operator,
            at_s=now,
            input_rate_per_s=self._rate_per_s(),
            backlog=self._backlog(),
            latency_s=running.scheduling_delay_s + now - running.at_s,
            processing_time_s=now - running.at_s,
            scheduling_delay_s=running.scheduling_delay_s,
            trigger_interval_s=self._interval_s,
            utilization=utilization,
            warming=self._is_cold() or self._changed_since(running.at_s),
        )

    def _rate_per_s(self) -> float | None:
        """What arrived in the newest batch interval."""
        return self._arrived / self._interval_s if self._counts_records else None

    def _backlog(self) -> float | None:
        return float(sum(self._waiting.values())) if self._counts_records else None

    def _is_warming(self, batch: Completed) -> bool:
        cold = self._is_cold()
        # The first batches may find nothing to do, and warm up nothing.
        worked = bool(batch.records) or not self._counts_records
        if cold and worked and (self._joined_s is None or batch.started_s >= self._joined_s):
            self._warm_for_s = self._joined_s
        return cold or self._changed_since(batch.started_s)

    def _is_cold(self) -> bool:
        """Whether no full batch was seen yet with the executors that there are."""
        return self._last is None or self._warm_for_s != self._joined_s

    def _changed_since(self, at_s: Instant) -> bool:
        return any(changed_s is not None and changed_s >= at_s for changed_s in (self._joined_s, self._left_s))
