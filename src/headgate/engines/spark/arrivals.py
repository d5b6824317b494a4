"""When the records of a source arrived, as far as it was seen. No JVM is needed here.

Every now and then it becomes known how far a source had come at some moment; between two such moments records are taken
to have arrived evenly. From this follows when the record at an offset arrived, and so what the oldest one that is not
done yet has waited, partition by partition.

>>> curve = ArrivalCurve()
>>> curve.add(0.0, {("0",): 0, ("1",): 0})
>>> curve.add(10.0, {("0",): 100, ("1",): 20})
>>> curve.oldest_after({("0",): 50, ("1",): 20})
5.0
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from headgate.core.types import Instant
from headgate.engines.spark.offsets import Offsets, Partition

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
