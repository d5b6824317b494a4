"""What can be seen of a micro-batch job from outside, which is less than what is true.

Spark tells of its source when it plans a batch: while one is running nothing newer is known, and what has arrived since
is guessed from the rate before. It tells of a batch when it has ended, and meanwhile how many tasks are done.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

from headgate.core.errors import UnknownNameError
from headgate.core.objective import excused_wait_s
from headgate.core.types import Batch, Instant, Sample, quickly
from headgate.simulation.contract import READING_DIGITS
from headgate.simulation.stream import arrival_time_s
from headgate.workloads.contract import Workload

_KEPT = 1000
"""Old answers are forgotten once there are so many."""
_GOES_ON_OVER_S = 30.0
"""The rate at which records are taken to go on arriving is that of about the last so many seconds of what is known."""


class KnownArrivals:
    """A counter of arrivals, known at some moments, as in ``engines/spark/source_state.py``.

    It is interpolated between them and extrapolated at the latest rate after the newest. At time 0 nothing has arrived.

    >>> known = KnownArrivals()
    >>> known.see(10.0, 100.0)
    >>> known.count(15.0), known.time_s(40.0), known.time_s(150.0)
    (150.0, 4.0, 15.0)
    """

    def __init__(self) -> None:
        self._times_s: list[Instant] = [0.0]
        self._counts: list[float] = [0.0]

    @property
    def newest_s(self) -> Instant:
        """When the source was asked last."""
        return self._times_s[-1]

    def tells(self, at_s: Instant) -> bool:
        """Whether anything can be said of a time: up to the newest answer, and beyond it once a rate is known."""
        return at_s <= self._times_s[-1] or len(self._times_s) > 1

    def see(self, at_s: Instant, count: float) -> None:
        """The source said how many records have arrived by a time, if that is news."""
        if at_s > self._times_s[-1]:
            self._times_s.append(at_s)
            self._counts.append(count)

    def forget(self, count: float) -> None:
        """What came before so many records is no longer asked for."""
        if len(self._counts) > _KEPT:
            gone = max(0, bisect_right(self._counts, count) - 1)
            del self._times_s[:gone], self._counts[:gone]

    def rate_per_s(self, over_s: float) -> float:
        """Records per second over about the last so many seconds of what is known; 0 before there are two answers."""
        times_s = self._times_s
        if len(times_s) < 2:
            return 0.0
        first = min(len(times_s) - 2, max(0, bisect_right(times_s, times_s[-1] - over_s) - 1))
        return (self._counts[-1] - self._counts[first]) / (times_s[-1] - times_s[first])

    def count(self, at_s: Instant) -> float:
        """Records that have arrived by a time, as far as one can tell."""
        after = bisect_right(self._times_s, at_s)
        if after == len(self._times_s):
            return self._counts[-1] + self.rate_per_s(_GOES_ON_OVER_S) * (at_s - self._times_s[-1])
        if after == 0:
            return self._counts[0]
        before_s, next_s = self._times_s[after - 1], self._times_s[after]
        share = (at_s - before_s) / (next_s - before_s)
        return self._counts[after - 1] + share * (self._counts[after] - self._counts[after - 1])

    def time_s(self, count: float) -> Instant:
        """When the next record after so many others arrived, as far as one can tell."""
        after = bisect_right(self._counts, count)
        if after == len(self._counts):
            rate_per_s = self.rate_per_s(_GOES_ON_OVER_S)
            return self.newest_s + ((count - self._counts[-1]) / rate_per_s if rate_per_s else 0.0)
        if after == 0:
            return self._times_s[0]
        share = (count - self._counts[after - 1]) / (self._counts[after] - self._counts[after - 1])
        return self._times_s[after - 1] + share * (self._times_s[after] - self._times_s[after - 1])


LEAST_RECORDS = 1e-6
"""Fewer records than this are rounding, not arrivals."""
_RATE_OVER_S = 5.0
"""The rate of arrivals is that of the last so many seconds of what is known, or of the last span between two news."""
_sample = quickly(Sample)


class Readings(StrEnum):
    """How well a job can be seen."""

    SPARK = "spark"
    """Arrivals as of the planning of the newest batch, and guessed since; work by whole tasks; batches at their end."""
    KAFKA = "kafka"
    """The same, but the source itself is asked, so that arrivals are known as of now."""
    PERFECT = "perfect"
    """The truth: arrivals as of now, and when each record arrived."""

    @classmethod
    def of(cls, name: str) -> Readings:
        if name not in list(cls):
            raise UnknownNameError("readings", name, [str(one) for one in cls])
        return cls(name)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is at the moment of a reading."""

    processed: float
    """Records of the batches that have ended."""
    admitted: float
    """Those, and the records of the running batch."""
    done: float
    """Those of the batches that have ended, and what is done of the running one."""
    waiting_from_s: Instant
    """No record that is not in a batch yet arrived before this."""
    busy_s: float
    available_s: float
    started_s: Instant | None
    """When the running batch started."""
    oldest_s: Instant
    """When its oldest record arrived, as far as that was told."""


class BatchReadings:
    """Keeps what a job has told, and makes a reading of it."""

    def __init__(
        self, operator: str, readings: Readings, workload: Workload, trigger_interval_s: float, bound_s: float | None
    ) -> None:
        self._operator = operator
        self._workload = workload
        self._trigger_interval_s = trigger_interval_s
        self._bound_s = bound_s
        self._excused_s = excused_wait_s(trigger_interval_s, bound_s)
        self._known = None if readings is Readings.PERFECT else KnownArrivals()
        self._asks = readings is Readings.KAFKA
        self._batches: list[Batch] = []
        self._ended_s: Instant | None = None
        self._warming = False
        self._arrived = 0.0
        self._late_done = 0.0
        self._late = 0.0

    def planned(self, at_s: Instant, arrived: float) -> None:
        """So many records have arrived by a time, Spark found as it planned a batch."""
        if self._known is not None:
            self._known.see(at_s, arrived)

    def oldest_s(self, count: float, truly_s: Instant) -> Instant:
        """When the next record after so many others arrived; what is true shows in perfect readings only."""
        return truly_s if self._known is None else min(self._known.newest_s, self._known.time_s(count))

    def excused_until_s(self, came_s: Instant, start_s: Instant) -> Instant:
        """From when on a record's wait counts: not for a trigger that is longer than the bound, but for its batch."""
        return min(came_s + self._excused_s, start_s) if self._excused_s else came_s

    def ended(
        self,
        start_s: Instant,
        end_s: Instant,
        records: float,
        oldest_s: Instant,
        processed: float,
        *,
        instances: int,
        warming: bool,
    ) -> None:
        """A batch has ended, whose oldest record was told to have come at a time, with so many processed before it."""
        late = self._late_of(end_s, records, oldest_s, processed)
        interval_s = self._trigger_interval_s
        self._batches.append(Batch(start_s, end_s, records, oldest_s, late, interval_s, instances, warming))
        self._ended_s = end_s
        if self._known is not None:
            self._known.forget(processed)

    def _late_of(self, end_s: Instant, records: float, oldest_s: Instant, processed: float) -> float | None:
        """Records of a batch that were late, which are counted with this."""
        if self._bound_s is None or end_s - oldest_s <= self._bound_s:
            return None if self._bound_s is None else 0.0
        late = min(records, max(0.0, self._arrived_by(end_s - self._bound_s - self._excused_s) - processed))
        self._late_done += late
        return late

    def _arrived_by(self, at_s: Instant) -> float:
        if at_s <= 0:
            return 0.0
        return self._workload.arrivals(0.0, at_s) if self._known is None else self._known.count(at_s)

    def read(self, now: Instant, progress: Progress, useful_instances: int | None) -> Sample:
        """What there is to be seen now."""
        if self._known is not None and self._asks:
            self._known.see(now, self._workload.arrivals(0.0, now))
        arrived = None
        if self._known is None or self._known.tells(now):
            arrived = max(self._arrived_by(now), progress.admitted)
            # A counter does not go back: where a guess was too high it stands until that many have come. Gauges do.
            self._arrived = max(self._arrived, arrived)
        batches, self._batches = tuple(self._batches), []
        if batches:
            self._warming = any(batch.warming for batch in batches)
        return _sample(
            operator=self._operator,
            at_s=now,
            age_s=0.0 if self._known is None else now - self._known.newest_s,
            arrived=None if arrived is None else round(self._arrived, READING_DIGITS),
            done=round(progress.done, READING_DIGITS),
            emitted=round(progress.processed, READING_DIGITS),
            late=self._count_late(now, progress.processed),
            busy_s=progress.busy_s,
            available_s=progress.available_s,
            batches=batches,
            backlog=None if arrived is None else max(0.0, round(arrived - progress.done, READING_DIGITS)),
            latency_s=None if arrived is None else self._latency_s(now, arrived, progress),
            running_s=None if progress.started_s is None else now - progress.started_s,
            batch_ended_s=self._ended_s,
            useful_instances=useful_instances,
            input_rate_per_s=self._rate_per_s(),
            trigger_interval_s=self._trigger_interval_s,
            warming=self._warming,
        )

    def _rate_per_s(self) -> float | None:
        """The rate of what is known; where that is the truth, it is left to differences of what has arrived."""
        if self._known is None or not self._known.tells(math.inf):
            return None
        return round(self._known.rate_per_s(_RATE_OVER_S), READING_DIGITS)

    def _latency_s(self, now: Instant, arrived: float, progress: Progress) -> float:
        if progress.started_s is not None:
            return max(0.0, now - progress.oldest_s)
        if arrived - progress.admitted < LEAST_RECORDS:
            return 0.0
        came_s = (
            arrival_time_s(self._workload, progress.waiting_from_s, 0.0, now)
            if self._known is None
            else self._known.time_s(progress.admitted)
        )
        return max(0.0, now - came_s - self._excused_s)

    def _count_late(self, now: Instant, processed: float) -> float | None:
        if self._bound_s is None:
            return None
        waiting = max(0.0, self._arrived_by(now - self._bound_s - self._excused_s) - processed)
        self._late = max(self._late, round(self._late_done + waiting, READING_DIGITS))
        return self._late
