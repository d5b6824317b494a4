"""How many records arrived in each ten seconds, from counters that are read now and then.

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


class Newest:
    """As many numbers as are kept at most; the oldest goes when there is another one."""

    def __init__(self, most: int, numbers: Iterable[float] = ()) -> None:
        self._most = most
        # Twice the room: those that are kept move to its beginning only when it is full, and lie side by side always.
        self._room = np.empty(2 * most)
        self._end = 0
        self.values: FloatArray = self._room[:0]
        """Oldest first, until the next one is added."""
        for number in numbers:
            self.append(number)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> float:
        return float(self.values[place])

    def append(self, number: float) -> None:
        if self._end == len(self._room):
            self._room[: self._most] = self.values
            self._end = self._most
        self._room[self._end] = number
        self._end += 1
        self.values = self._room[max(0, self._end - self._most) : self._end]

    def clear(self) -> None:
        self._end, self.values = 0, self._room[:0]


BIN_S = 10.0
BINS_PER_MINUTE = 6
KEPT_BINS = 1080
"""Three hours of bins; of what is older, only minutes are kept."""
KEPT_MINUTES = 3 * 1440
NEWS_BINS = 6
"""What came within a minute is news; what came before that is experience."""
BEYOND = 1.2
"""A load that is so many times the largest that came before is beyond experience."""
BEYOND_CHANCE = 3.0
"""And by more than so many standard deviations of what chance makes of a count."""
OFTEN_ASKED = 60
"""As many of the newest bins as most ask for at most."""
TELLS_S = 4.0
"""What came in so many seconds tells something before the first bin is complete."""
LONGEST_GAP_S = 600.0
"""After a longer silence the record begins anew."""


class LoadHistory:
    """Arrivals in bins of ten seconds; the first one begins with the first reading, so that none is cut short."""

    def __init__(self) -> None:
        self._edges = Newest(KEPT_BINS + 1)
        """Records that had arrived by the end of each bin."""
        self._newest_bin: int | None = None
        self._offset_s = 0.0
        """How long after a multiple of ten seconds bins begin."""
        self._last: tuple[Instant, float] | None = None
        self._minutes = Newest(KEPT_MINUTES)
        self.largest = 0.0
        """The most that ever arrived in one bin."""
        self._experienced = 0.0
        """The same, without the newest bins."""
        self.is_beyond_experience = False
        """Whether it has just risen above all that came before, which then does not tell how it goes on."""
        self._recent: FloatArray | None = None
        """The newest bins by the newest reading: several parts of a decision ask for some of them."""

    @property
    def newest_bin(self) -> int:
        """The number of the newest bin that is complete: it ended at ``newest_bin · BIN_S``, give or take one."""
        return self._newest_bin or 0

    def __len__(self) -> int:
        return max(0, len(self._edges) - 1)

    def add(self, at_s: Instant, arrived: float) -> int:
        """Take in a reading of the counter; gives how many bins became complete."""
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
            # The counter began anew; what came meanwhile is not known, so the level is moved.
            self._edges = Newest(KEPT_BINS + 1, (edge + arrived - before for edge in self._edges.values.tolist()))
            before = arrived
        done = 0
        while (edge_s := self._ends_s(self.newest_bin + 1)) <= at_s:
            share = (edge_s - before_s) / (at_s - before_s)
            self._close(before + max(0.0, share) * (arrived - before))
            done += 1
        newest = float(np.add.reduce(self.recent(1)))
        highest = BEYOND * self._experienced + BEYOND_CHANCE * math.sqrt(newest)
        self.is_beyond_experience = bool(self._experienced > 0 and newest > highest)
        return done

    def begin_anew(self) -> None:
        """Times are other than they were; what was the most, and the minutes of a season, stay."""
        self._edges.clear()
        self._recent = None
        self._newest_bin, self._last, self.is_beyond_experience = None, None, False

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
        if len(self._edges) > NEWS_BINS + 1:
            self._experienced = max(self._experienced, self._edges[-1 - NEWS_BINS] - self._edges[-2 - NEWS_BINS])
        if self._newest_bin % BINS_PER_MINUTE == 0 and len(self._edges) > BINS_PER_MINUTE:
            self._minutes.append(self._edges[-1] - self._edges[-1 - BINS_PER_MINUTE])

    def counts(self, bins: int) -> FloatArray:
        """The records of the newest bins, oldest first; fewer where there are not so many."""
        edges = self._edges.values[-bins - 1 :]
        return edges[1:] - edges[:-1]

    def recent(self, bins: int) -> FloatArray:
        """The same, but of the bins that end with the newest reading; before there is a whole one, what it would be."""
        if bins > OFTEN_ASKED:
            return self._up_to_now(bins)
        if self._recent is None:
            self._recent = self._up_to_now(OFTEN_ASKED)
        return self._recent[-bins:]

    def _up_to_now(self, bins: int) -> FloatArray:
        if self._last is None or self._newest_bin is None:
            return self.counts(bins)
        if len(self._edges) < 2:
            elapsed_s = self._last[0] - self._ends_s(self._newest_bin)
            come = max(0.0, self._last[1] - self._edges[0])
            return np.array([come * BIN_S / elapsed_s]) if elapsed_s >= TELLS_S else self.counts(bins)
        (at_s, arrived), count = self._last, min(bins + 2, len(self._edges))
        times_s, reached = np.empty(count + 1), np.empty(count + 1)
        times_s[:-1] = self._ends_s(self._newest_bin) - BIN_S * np.arange(count - 1, -1, -1)
        reached[:-1] = self._edges.values[-count:]
        # What came after the newest edge, and before the newest reading, is known by the reading.
        times_s[-1], reached[-1] = at_s + 1e-9, max(self._edges[-1], arrived)
        known = min(bins, int((at_s - times_s[0]) / BIN_S + 1e-9))
        asked = np.interp(at_s - BIN_S * np.arange(known, -1, -1), times_s, reached)
        return np.asarray(asked[1:] - asked[:-1])

    def recent_per_s(self, bins: int) -> float:
        """What arrives per second, as the mean of so many bins; 0 where nothing is known."""
        counts = self.recent(bins)
        return mean(counts) / BIN_S if len(counts) else 0.0

    def minutes(self) -> FloatArray:
        """The records of each minute, oldest first, until another one is over."""
        return self._minutes.values

    def to_json(self) -> dict[str, JSON]:
        return {
            "edges": self._edges.values.tolist(),
            "newest_bin": self._newest_bin,
            "offset_s": self._offset_s,
            "last": list(self._last) if self._last else None,
            "minutes": self._minutes.values.tolist(),
            "largest": self.largest,
            "experienced": self._experienced,
            "is_beyond_experience": self.is_beyond_experience,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> LoadHistory:
        made = cls()
        made._edges = Newest(KEPT_BINS + 1, saved["edges"])
        made._newest_bin = None if saved["newest_bin"] is None else int(saved["newest_bin"])
        made._offset_s = float(saved["offset_s"])
        last = saved["last"]
        made._last = None if last is None else (float(last[0]), float(last[1]))
        made._minutes = Newest(KEPT_MINUTES, saved["minutes"])
        made.largest = float(saved["largest"])
        made._experienced = float(saved["experienced"])
        made.is_beyond_experience = bool(saved["is_beyond_experience"])
        return made


def mean(values: FloatArray) -> float:
    """The mean of some; as ``values.mean()``, which takes longer to begin than to add up so few."""
    return float(np.add.reduce(values)) / len(values)
