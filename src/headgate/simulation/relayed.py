"""What one operator gives to the next, as a workload: known up to now, and growing while the first one works.

>>> relayed = Relayed()
>>> relayed.give(10.0, 50.0)
>>> relayed.arrivals(0.0, 9.0), relayed.arrivals(9.0, 10.0), relayed.next_turn_s(9.0) <= 10.0
(0.0, 50.0, True)
"""

from __future__ import annotations

import math
from bisect import bisect_right

AT_ONCE_S = 1e-3
"""Results come out together at the end of a batch: within this time."""


class Relayed:
    """Results that came out, as arrivals at those downstream."""

    def __init__(self) -> None:
        self._times_s: list[float] = [0.0]
        self._counts: list[float] = [0.0]

    def give(self, at_s: float, records: float) -> None:
        """So many results have come out by a time, which is no earlier than that of those before."""
        begins_s = max(self._times_s[-1], at_s - AT_ONCE_S)
        if begins_s > self._times_s[-1]:
            self._times_s.append(begins_s)
            self._counts.append(self._counts[-1])
        self._times_s.append(max(at_s, math.nextafter(begins_s, math.inf)))
        self._counts.append(self._counts[-1] + records)

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
