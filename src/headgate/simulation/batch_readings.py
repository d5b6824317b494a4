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

_MOST_POINTS = 1000
"""Beyond this many points, old ones are forgotten."""
_EXTRAPOLATED_OVER_S = 30.0
"""Arrivals are extrapolated at the rate of about the last so many known seconds."""


class KnownArrivals:
    """A counter of arrivals, known at some moments, as in ``engines/spark/sources.py``.

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
        """When the source was last queried."""
        return self._times_s[-1]

    def is_known(self, at_s: Instant) -> bool:
        """Whether a time can be estimated: up to the newest point, and beyond it once a rate is known."""
        return at_s <= self._times_s[-1] or len(self._times_s) > 1

    def see(self, at_s: Instant, count: float) -> None:
        """Add the count that the source reports for a time, if it is newer than the last."""
        if at_s > self._times_s[-1]:
            self._times_s.append(at_s)
            self._counts.append(count)

    def forget(self, count: float) -> None:
        """Drop points that lie before a count of records."""
        if len(self._counts) > _MOST_POINTS:
            gone = max(0, bisect_right(self._counts, count) - 1)
            del self._times_s[:gone], self._counts[:gone]

    def rate_per_s(self, over_s: float) -> float:
        """Return records per second over about the last so many known seconds; 0 before there are two points."""
        times_s = self._times_s
        if len(times_s) < 2:
            return 0.0
        first = min(len(times_s) - 2, max(0, bisect_right(times_s, times_s[-1] - over_s) - 1))
        return (self._counts[-1] - self._counts[first]) / (times_s[-1] - times_s[first])

    def count(self, at_s: Instant) -> float:
        """Return an estimate of the records that have arrived by a time."""
        after = bisect_right(self._times_s, at_s)
        if after == len(self._times_s):
            return self._counts[-1] + self.rate_per_s(_EXTRAPOLATED_OVER_S) * (at_s - self._times_s[-1])
        if after == 0:
            return self._counts[0]
        before_s, next_s = self._times_s[after - 1], self._times_s[after]
        share = (at_s - before_s) / (next_s - before_s)
        return self._counts[after - 1] + share * (self._counts[after] - self._counts[after - 1])

    def time_s(self, count: float) -> Instant:
        """Return an estimate of when the next record after so many others arrived."""
        after = bisect_right(self._counts, count)
        if after == len(self._counts):
            rate_per_s = self.rate_per_s(_EXTRAPOLATED_OVER_S)
            return self.newest_s + ((count - self._counts[-1]) / rate_per_s if rate_per_s else 0.0)
        if after == 0:
            return self._times_s[0]
        share = (count - self._counts[after - 1]) / (self._counts[after] - self._counts[after - 1])
        return self._times_s[after - 1] + share * (self._times_s[after] - self._times_s[after - 1])


LEAST_RECORDS = 1e-6
"""Fewer records than this are rounding, not arrivals."""
_RATE_OVER_S = 5.0
"""The arrival rate of a reading is that of the last so many known seconds, or of the last span between two points."""
_sample = quickly(Sample)


class ReadingMode(StrEnum):
    """How much readings show of a job."""

    SPARK = "spark"
    """Arrivals as of the newest batch's planning, extrapolated since; work in whole tasks; batches at their end."""
    KAFKA = "kafka"
    """The same, but the source itself is queried, so that arrivals are known as of now."""
    PERFECT = "perfect"
    """The truth: arrivals as of now, and when each record arrived."""

    @classmethod
    def of(cls, name: str) -> ReadingMode:
        if name not in list(cls):
            raise UnknownNameError("readings", name, [str(mode) for mode in cls])
        return cls(name)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a job is at the moment of a reading."""

    processed: float
    """Records of the batches that have ended."""
    admitted: float
    """Records of the batches that have ended and of the running one."""
    done: float
    """Records of the batches that have ended, and the finished share of the running one."""
    waiting_from_s: Instant
    """No record outside the batches arrived before this."""
    busy_s: float
    available_s: float
    started_s: Instant | None
    """When the running batch started."""
    oldest_s: Instant
    """When its oldest record arrived, as far as readings show it."""


class BatchReadings:
    """Collects what a job reports, and makes readings from it."""

    def __init__(
        self, operator: str, readings: ReadingMode, workload: Workload, trigger_interval_s: float, bound_s: float | None
    ) -> None:
        self._operator = operator
        self._workload = workload
        self._trigger_interval_s = trigger_interval_s
        self._bound_s = bound_s
        self._excused_s = excused_wait_s(trigger_interval_s, bound_s)
        self._known = None if readings is ReadingMode.PERFECT else KnownArrivals()
        self._asks = readings is ReadingMode.KAFKA
        self._batches: list[Batch] = []
        self._ended_s: Instant | None = None
        self._warming = False
        self._arrived = 0.0
        self._late_done = 0.0
        self._late = 0.0

    def planned(self, at_s: Instant, arrived: float) -> None:
        """Note how many records had arrived by a time, as found when a batch was planned."""
        if self._known is not None:
            self._known.see(at_s, arrived)

    def oldest_s(self, count: float, truly_s: Instant) -> Instant:
        """Return when the next record after so many others arrived; the true time only for perfect readings."""
        return truly_s if self._known is None else min(self._known.newest_s, self._known.time_s(count))

    def excused_until_s(self, arrived_s: Instant, start_s: Instant) -> Instant:
        """Return when a record's latency begins to count: the wait for a trigger longer than the bound is excused."""
        return min(arrived_s + self._excused_s, start_s) if self._excused_s else arrived_s

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
        """Note the end of a batch, with the reported arrival of its oldest record and the records processed before."""
        late = self._late_of(end_s, records, oldest_s, processed)
        interval_s = self._trigger_interval_s
        self._batches.append(Batch(start_s, end_s, records, oldest_s, late, interval_s, instances, warming))
        self._ended_s = end_s
        if self._known is not None:
            self._known.forget(processed)

    def _late_of(self, end_s: Instant, records: float, oldest_s: Instant, processed: float) -> float | None:
        """Return how many records of a batch were late, and count them."""
        if self._bound_s is None or end_s - oldest_s <= self._bound_s:
            return None if self._bound_s is None else 0.0
        late = min(records, max(0.0, self._arrived_by(end_s - self._bound_s - self._excused_s) - processed))
        self._late_done += late
        return late

    def _arrived_by(self, at_s: Instant) -> float:
        if at_s <= 0:
            return 0.0
        return self._workload.arrivals(0.0, at_s) if self._known is None else self._known.count(at_s)

    def read(self, now: Instant, progress: BatchProgress, useful_instances: int | None) -> Sample:
        """Return the reading of this moment."""
        if self._known is not None and self._asks:
            self._known.see(now, self._workload.arrivals(0.0, now))
        arrived = None
        if self._known is None or self._known.is_known(now):
            arrived = max(self._arrived_by(now), progress.admitted)
            # Counters never go back: an estimate that was too high stays until that many have arrived. Gauges may fall.
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
        """Return the known rate; perfect readings leave it to differences of the counter of arrivals."""
        if self._known is None or not self._known.is_known(math.inf):
            return None
        return round(self._known.rate_per_s(_RATE_OVER_S), READING_DIGITS)

    def _latency_s(self, now: Instant, arrived: float, progress: BatchProgress) -> float:
        if progress.started_s is not None:
            return max(0.0, now - progress.oldest_s)
        if arrived - progress.admitted < LEAST_RECORDS:
            return 0.0
        arrived_s = (
            arrival_time_s(self._workload, progress.waiting_from_s, 0.0, now)
            if self._known is None
            else self._known.time_s(progress.admitted)
        )
        return max(0.0, now - arrived_s - self._excused_s)

    def _count_late(self, now: Instant, processed: float) -> float | None:
        if self._bound_s is None:
            return None
        waiting = max(0.0, self._arrived_by(now - self._bound_s - self._excused_s) - processed)
        self._late = max(self._late, round(self._late_done + waiting, READING_DIGITS))
        return self._late
