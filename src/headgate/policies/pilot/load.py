"""Arrivals per ten-second bin, reconstructed from irregular readings of a counter.

>>> load = LoadHistory()
>>> load.add(0.0, 100.0), load.add(25.0, 600.0), load.add(40.0, 900.0)
(0, 2, 2)
>>> load.counts(4)
array([200., 200., 200., 200.])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.forecast.base import FloatArray


class RecentValues:
    """The newest numbers of a series as a contiguous array, without copying on access.

    >>> recent = RecentValues(3, (1.0, 2.0, 3.0, 4.0))
    >>> recent.values, recent[-1], len(recent)
    (array([2., 3., 4.]), 4.0, 3)
    """

    def __init__(self, capacity: int, numbers: Iterable[float] = ()) -> None:
        self._capacity = capacity
        # A buffer of twice the capacity: values move to its start only when it is full and always stay contiguous.
        self._buffer = np.empty(2 * capacity)
        self._end = 0
        self.values: FloatArray = self._buffer[:0]
        """Oldest first; valid until the next append."""
        for number in numbers:
            self.append(number)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> float:
        return float(self.values[place])

    def append(self, number: float) -> None:
        if self._end == len(self._buffer):
            self._buffer[: self._capacity] = self.values
            self._end = self._capacity
        self._buffer[self._end] = number
        self._end += 1
        self.values = self._buffer[max(0, self._end - self._capacity) : self._end]

    def clear(self) -> None:
        self._end, self.values = 0, self._buffer[:0]


BIN_S = 10.0
BINS_PER_MINUTE = 6
BINS_STORED = 1080
"""Three hours of bins; older arrivals are stored per minute."""
MINUTES_STORED = 3 * 1440
RECENT_BINS = 6
"""The newest bins are compared with the maximum of all earlier ones."""
UNPRECEDENTED = 1.2
"""A load is unprecedented above this multiple of the earlier maximum …"""
UNPRECEDENTED_DEVIATIONS = 3.0
"""… plus this many standard deviations of a Poisson count."""
CACHED_BINS = 60
"""Bins computed once per reading; few callers need more."""
SHORTEST_BIN_S = 4.0
"""The first bin is extrapolated once it covers this many seconds."""
LONGEST_GAP_S = 600.0
"""A longer gap between readings resets the bins."""


class LoadHistory:
    """Arrivals in bins of ten seconds; the first bin starts at the first reading, so every bin is complete."""

    def __init__(self) -> None:
        self._edges = RecentValues(BINS_STORED + 1)
        """Cumulative arrivals at the end of each bin."""
        self._newest_bin: int | None = None
        self._offset_s = 0.0
        """Offset of bin starts from multiples of ten seconds."""
        self._last: tuple[Instant, float] | None = None
        self._minutes = RecentValues(MINUTES_STORED)
        self.largest = 0.0
        """The largest count of any bin."""
        self._earlier_largest = 0.0
        """The largest count of any bin except the newest ``RECENT_BINS``."""
        self.is_unprecedented = False
        """Whether the load just exceeded all earlier ones, so that the past does not predict what follows."""
        self._recent: FloatArray | None = None
        """Cache of the newest ``CACHED_BINS``, aligned with the newest reading."""

    @property
    def newest_bin(self) -> int:
        """The number of the newest complete bin, which ended at about ``newest_bin · BIN_S``."""
        return self._newest_bin or 0

    def __len__(self) -> int:
        return max(0, len(self._edges) - 1)

    def add(self, at_s: Instant, arrived: float) -> int:
        """Add a counter reading and return how many bins it completed."""
        last = self._last
        self._last = (at_s, arrived)
        self._recent = None
        if last is None or at_s - last[0] > LONGEST_GAP_S:
            self._begin(at_s, arrived)
            return 0
        before_s, before = last
        if at_s <= before_s:
            self._last = last
            return 0
        if arrived < before:
            # The counter was reset. Arrivals in between are unknown, so earlier edges are shifted to the new level.
            self._edges = RecentValues(
                BINS_STORED + 1, (edge + arrived - before for edge in self._edges.values.tolist())
            )
            before = arrived
        done = 0
        while (edge_s := self._ends_s(self.newest_bin + 1)) <= at_s:
            share = (edge_s - before_s) / (at_s - before_s)
            self._close(before + max(0.0, share) * (arrived - before))
            done += 1
        newest = float(np.add.reduce(self.recent(1)))
        limit = UNPRECEDENTED * self._earlier_largest + UNPRECEDENTED_DEVIATIONS * math.sqrt(newest)
        self.is_unprecedented = bool(self._earlier_largest > 0 and newest > limit)
        return done

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset. Maxima and the minutes for the season remain."""
        self._edges.clear()
        self._recent = None
        self._newest_bin, self._last, self.is_unprecedented = None, None, False

    def _begin(self, at_s: Instant, arrived: float) -> None:
        self._edges.clear()
        self._newest_bin = math.floor(at_s / BIN_S)
        self._offset_s = at_s - self._newest_bin * BIN_S
        self._edges.append(arrived)

    def _ends_s(self, number: int) -> Instant:
        return number * BIN_S + self._offset_s

    def _close(self, reached: float) -> None:
        self._newest_bin = self.newest_bin + 1
        count = max(0.0, reached - self._edges[-1])
        self._edges.append(self._edges[-1] + count)
        self.largest = max(self.largest, count)
        if len(self._edges) > RECENT_BINS + 1:
            earlier = self._edges[-1 - RECENT_BINS] - self._edges[-2 - RECENT_BINS]
            self._earlier_largest = max(self._earlier_largest, earlier)
        if self._newest_bin % BINS_PER_MINUTE == 0 and len(self._edges) > BINS_PER_MINUTE:
            self._minutes.append(self._edges[-1] - self._edges[-1 - BINS_PER_MINUTE])

    def counts(self, bins: int) -> FloatArray:
        """Return the counts of the newest complete bins, oldest first; fewer if not enough are known."""
        edges = self._edges.values[-bins - 1 :]
        return edges[1:] - edges[:-1]

    def recent(self, bins: int) -> FloatArray:
        """Return the counts of bins that end at the newest reading; a first, incomplete bin is extrapolated."""
        if bins > CACHED_BINS:
            return self._up_to_now(bins)
        if self._recent is None:
            self._recent = self._up_to_now(CACHED_BINS)
        return self._recent[-bins:]

    def _up_to_now(self, bins: int) -> FloatArray:
        if self._last is None or self._newest_bin is None:
            return self.counts(bins)
        if len(self._edges) < 2:
            elapsed_s = self._last[0] - self._ends_s(self._newest_bin)
            arrived = max(0.0, self._last[1] - self._edges[0])
            return np.array([arrived * BIN_S / elapsed_s]) if elapsed_s >= SHORTEST_BIN_S else self.counts(bins)
        (at_s, arrived), count = self._last, min(bins + 2, len(self._edges))
        times_s, reached = np.empty(count + 1), np.empty(count + 1)
        times_s[:-1] = self._ends_s(self._newest_bin) - BIN_S * np.arange(count - 1, -1, -1)
        reached[:-1] = self._edges.values[-count:]
        # The newest reading adds a point after the newest edge.
        times_s[-1], reached[-1] = at_s + 1e-9, max(self._edges[-1], arrived)
        known = min(bins, int((at_s - times_s[0]) / BIN_S + 1e-9))
        edges = np.interp(at_s - BIN_S * np.arange(known, -1, -1), times_s, reached)
        return np.asarray(edges[1:] - edges[:-1])

    def recent_per_s(self, bins: int) -> float:
        """Return the mean arrival rate over the newest bins; 0 if nothing is known."""
        counts = self.recent(bins)
        return mean(counts) / BIN_S if len(counts) else 0.0

    def minutes(self) -> FloatArray:
        """Return the records of each minute, oldest first; valid until the next minute is complete."""
        return self._minutes.values

    def to_json(self) -> dict[str, JSON]:
        return {
            "edges": self._edges.values.tolist(),
            "newest_bin": self._newest_bin,
            "offset_s": self._offset_s,
            "last": list(self._last) if self._last else None,
            "minutes": self._minutes.values.tolist(),
            "largest": self.largest,
            "experienced": self._earlier_largest,
            "is_beyond_experience": self.is_unprecedented,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> LoadHistory:
        made = cls()
        made._edges = RecentValues(BINS_STORED + 1, saved["edges"])
        made._newest_bin = None if saved["newest_bin"] is None else int(saved["newest_bin"])
        made._offset_s = float(saved["offset_s"])
        last = saved["last"]
        made._last = None if last is None else (float(last[0]), float(last[1]))
        made._minutes = RecentValues(MINUTES_STORED, saved["minutes"])
        made.largest = float(saved["largest"])
        made._earlier_largest = float(saved["experienced"])
        made.is_unprecedented = bool(saved["is_beyond_experience"])
        return made


def mean(values: FloatArray) -> float:
    """Return the mean; for short arrays faster than ``values.mean()``."""
    return float(np.add.reduce(values)) / len(values)
