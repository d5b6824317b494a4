"""What is known of arrivals between the moments at which a source was asked, as in ``engines/spark/source_state.py``.

>>> known = KnownArrivals()
>>> known.see(10.0, 100.0)
>>> known.count(15.0), known.time_s(40.0), known.time_s(150.0)
(150.0, 4.0, 15.0)
"""

from __future__ import annotations

from bisect import bisect_right

from headgate.core.types import Instant

_KEPT = 1000
"""Old answers are forgotten once there are so many."""
_GOES_ON_OVER_S = 30.0
"""The rate at which records are taken to go on arriving is that of about the last so many seconds of what is known."""


class KnownArrivals:
    """A counter of arrivals, known at some moments: straight in between, and as steep as lately after the newest.

    At time 0 nothing has arrived.
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
