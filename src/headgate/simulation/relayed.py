"""What one operator gives to the next, as a workload: known up to now, and growing while the first one works.

>>> relayed = Relayed()
>>> relayed.give(10.0, 0.0)
>>> relayed.give(12.0, 50.0)
>>> relayed.arrivals(0.0, 10.0), relayed.arrivals(10.0, 11.0), relayed.rate_per_s(11.0), relayed.next_turn_s(10.5)
(0.0, 25.0, 25.0, 12.0)
"""

from __future__ import annotations

import math
from bisect import bisect_right


class Relayed:
    """Results that came out, as arrivals at those downstream."""

    def __init__(self) -> None:
        self._times_s: list[float] = [0.0]
        self._counts: list[float] = [0.0]

    def give(self, until_s: float, records: float) -> None:
        """So many results came out since the last time, evenly until a time that is later than that."""
        before = len(self._times_s) - 1
        if before and records == 0 and self._counts[before] == self._counts[before - 1]:
            self._times_s[before] = until_s  # Still nothing.
            return
        self._times_s.append(until_s)
        self._counts.append(self._counts[before] + records)

    def by(self, at_s: float) -> float:
        """Results that had come out by a time."""
        after = bisect_right(self._times_s, at_s)
        if after == len(self._times_s):
            return self._counts[-1]
        if after == 0:
            return 0.0
        share = (at_s - self._times_s[after - 1]) / (self._times_s[after] - self._times_s[after - 1])
        return self._counts[after - 1] + share * (self._counts[after] - self._counts[after - 1])

    def rate_per_s(self, at_s: float) -> float:
        after = bisect_right(self._times_s, at_s)
        if after in (0, len(self._times_s)):
            return 0.0
        length_s = self._times_s[after] - self._times_s[after - 1]
        return (self._counts[after] - self._counts[after - 1]) / length_s

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self.by(to_s) - self.by(from_s)

    def next_turn_s(self, at_s: float) -> float:
        after = bisect_right(self._times_s, at_s)
        return math.inf if after == len(self._times_s) else self._times_s[after]

    def describe(self) -> str:
        return "what the operator before it gives"
