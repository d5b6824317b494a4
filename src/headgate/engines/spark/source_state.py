"""One source of a query: how far it has come, how far the batches have come, and what its offsets are worth.

No JVM is needed here. Records are counted from offsets; ``worth`` is how many there are per step of an offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.types import Instant
from headgate.engines.spark.offsets import Offsets, Partition, RecordsPerOffset, distance
from headgate.engines.spark.snapshots import QuerySource

MOST_NUMBERS = 20_000
"""Points times partitions. Beyond this, every other one of the older half is forgotten."""


class ArrivalCurve:
    """How far each partition had come, over time."""

    def __init__(self) -> None:
        self._times_s: list[Instant] = []
        self._reached: list[dict[Partition, float]] = []

    @property
    def newest_s(self) -> Instant | None:
        """The last moment that anything is known of."""
        return self._times_s[-1] if self._times_s else None

    @property
    def newest(self) -> Mapping[Partition, float]:
        """How far the source had come by then."""
        return self._reached[-1] if self._reached else {}

    def add(self, at_s: Instant, reached: Offsets) -> None:
        """Take in how far the source had come at a moment; news of the past change nothing but the present."""
        known = self.newest
        # Offsets do not go back: what is smaller was read before, from another view of the source.
        merged = {name: max(value, known.get(name, value)) for name, value in reached.items()}
        merged = {**known, **merged}
        if self._times_s and at_s <= self._times_s[-1]:
            self._reached[-1] = merged
            return
        for name in merged.keys() - known.keys():
            # A partition that was not there before begins where it is first seen, as far as is known.
            for past in self._reached:
                past[name] = merged[name]
        self._times_s.append(at_s)
        self._reached.append(merged)
        if len(self._times_s) > max(100, MOST_NUMBERS // max(1, len(merged))):
            half = len(self._times_s) // 2
            self._times_s[:half] = self._times_s[:half:2]
            self._reached[:half] = self._reached[:half:2]

    def begin(self, at_s: Instant, reached: Offsets) -> None:
        """Start the curve: nothing is known of when what lies before this came."""
        if reached and not self._times_s:
            self.add(at_s, reached)

    def learn_past(self, points: Sequence[tuple[Instant, Offsets]]) -> None:
        """Take in what the source knows of its own past, oldest first, if it goes further back than what was seen."""
        if not points or (self._times_s and self._times_s[0] <= points[0][0]):
            return
        self._times_s, self._reached = [], []
        for at_s, reached in points:
            self.add(at_s, reached)

    def forget_before(self, at_s: Instant) -> None:
        """Let go of what is older than this, but for the point that was current then."""
        cut = bisect_right(self._times_s, at_s) - 1
        if cut > 0:
            del self._times_s[:cut], self._reached[:cut]

    def reached_by(self, at_s: Instant) -> Offsets:
        """How far each partition had come by a time, as far as is known; nothing before the first news."""
        index = bisect_right(self._times_s, at_s)
        if index == 0:
            return {}
        if index == len(self._times_s):
            return self._reached[-1]
        before, after = self._reached[index - 1], self._reached[index]
        since_s, until_s = self._times_s[index - 1], self._times_s[index]
        share = (at_s - since_s) / (until_s - since_s)
        return {name: before[name] + share * (value - before[name]) for name, value in after.items()}

    def oldest_after(self, done: Offsets) -> Instant | None:
        """When the oldest record after these offsets arrived; ``None`` when there is none.

        What came before the first news has waited since then at least.
        """
        if not self._waits(len(self._times_s) - 1, done):
            return None
        # Offsets only grow, so once something waits at a point, something does at all later ones.
        first = bisect_left(range(len(self._times_s)), True, key=lambda index: self._waits(index, done))
        if first == 0:
            return self._times_s[0]
        before, after = self._reached[first - 1], self._reached[first]
        since_s, until_s = self._times_s[first - 1], self._times_s[first]
        shares = (
            (done.get(name, before[name]) - before[name]) / (value - before[name])
            for name, value in after.items()
            if value > max(before[name], done.get(name, before[name]))
        )
        return since_s + max(0.0, min(shares)) * (until_s - since_s)

    def rate_per_s(self, over_s: float) -> dict[Partition, float]:
        """Steps per second in each partition, over about the last so many seconds of what is known."""
        if len(self._times_s) < 2:
            return {}
        newest_s = self._times_s[-1]
        # Looks are never quite as far apart as they should be.
        since_s = newest_s - 0.9 * over_s
        first = min(len(self._times_s) - 2, max(0, bisect_right(self._times_s, since_s) - 1))
        span_s = newest_s - self._times_s[first]
        return {name: (value - self._reached[first][name]) / span_s for name, value in self._reached[-1].items()}

    def _waits(self, index: int, done: Offsets) -> bool:
        if index < 0:
            return False
        return any(value > done.get(name, 0.0) for name, value in self._reached[index].items())


RATE_OVER_S = 5.0
"""The rate of arrivals is that of the last so many seconds of what is known, or of the last span between two news."""
EXTRAPOLATION_OVER_S = 30.0
"""The rate at which records are taken to go on arriving is a steadier one."""
UNANSWERED_S = 2.0
"""A source that has answered before and does not for so short a time is where it was: on a busy machine that happens
every now and then. What is taken to have come and has not would stay in the count of arrivals."""


@dataclass(slots=True)
class SourceState:
    """What is known of a source."""

    set_up: QuerySource
    worth: RecordsPerOffset
    curve: ArrivalCurve = field(default_factory=ArrivalCurve)
    done: dict[Partition, float] = field(default_factory=dict)
    """Where the newest batch that was reported ends."""
    planned: Offsets | None = None
    """Where the batch after it ends, that runs or was not reported yet."""
    share_done: float = 0.0
    """Of the records of that batch."""
    least_done: float = 0.0
    """Of the records of the partition that is furthest behind."""
    counted: Offsets = field(default_factory=dict)
    """Up to here arrivals were counted."""
    answers: bool = False
    """It can be asked, and has answered."""

    @classmethod
    def of(cls, set_up: QuerySource) -> SourceState:
        return cls(set_up, RecordsPerOffset(set_up.kind))

    def begin(self, start: Offsets | None, end: Offsets | None) -> None:
        """Take in where the first batch begins that anybody looks at, and where it ends."""
        if not self.done:
            self.done = dict(start if start is not None else self.set_up.first_offsets(end))

    # ------------------------------------------------------------------------------------------------- what arrived

    def reached(self, now: Instant, *, extrapolates: bool) -> tuple[Offsets, float]:
        """How far it has come by now, and how old the news is that this rests on.

        ``extrapolates``: records are taken to have gone on arriving since, as they did before.
        """
        newest_s, newest = self.curve.newest_s, self.curve.newest
        age_s = 0.0 if newest_s is None else max(0.0, now - newest_s)
        if age_s > (UNANSWERED_S if self.answers else 0.0) and extrapolates:
            rates = self.curve.rate_per_s(EXTRAPOLATION_OVER_S)
            newest = {name: value + rates.get(name, 0.0) * age_s for name, value in newest.items()}
        return newest, age_s

    def count(self, reached: Offsets) -> float:
        """Records that came since the last count. It never goes back, though an estimate of what has come may."""
        before = self.counted or self.done
        self.counted = {name: max(value, before.get(name, value)) for name, value in reached.items()}
        return self.worth.value * distance({name: before.get(name, 0.0) for name in reached}, reached)

    def rate_per_s(self) -> float | None:
        """Records per second that arrive; ``None`` before two news are there."""
        rates = self.curve.rate_per_s(RATE_OVER_S)
        return self.worth.value * sum(rates.values()) if rates else None

    def forget_arrivals(self, before_s: Instant) -> None:
        """Let go of what is older, but for what rates, and the age of records that are not done, are found by."""
        needed_s = [before_s]
        if self.curve.newest_s is not None:
            needed_s.append(self.curve.newest_s - EXTRAPOLATION_OVER_S)
        if (oldest_s := self.curve.oldest_after(self.done)) is not None:
            needed_s.append(oldest_s)
        self.curve.forget_before(min(needed_s))

    # -------------------------------------------------------------------------------------------------- what is done

    def backlog(self, reached: Offsets) -> float:
        """Records from what was reported to be done up to an offset."""
        return self.worth.value * distance(self.done, reached)

    @property
    def planned_skew(self) -> float:
        """Records of the largest partition of the planned batch over those of a mean one that has any."""
        planned = self.planned or {}
        steps = [end - self.done.get(name, 0.0) for name, end in planned.items() if end > self.done.get(name, 0.0)]
        return max(steps) * len(steps) / sum(steps) if steps else 1.0

    @property
    def unreported(self) -> float:
        """Records that are done and were not reported yet."""
        return 0.0 if self.planned is None else self.share_done * self.backlog(self.planned)

    @property
    def through(self) -> Offsets:
        """Up to here everything is done."""
        if self.planned is None or self.least_done <= 0:
            return self.done
        return self.done | {
            name: start + self.least_done * (end - start)
            for name, end in self.planned.items()
            for start in (self.done.get(name, 0.0),)
        }

    def arrived_before(self, at_s: Instant, first: Offsets, end: Offsets) -> float:
        """Of the records from one offset to another, those that had come by a time."""
        arrived = self.curve.reached_by(at_s)
        steps = (
            max(0.0, min(reached, arrived.get(name, 0.0)) - first.get(name, reached)) for name, reached in end.items()
        )
        return self.worth.value * sum(steps)
