"""When each record of a workload is due: whole records, as many as the integral of the workload.

Record n (from 0) is due when the integral of the rate reaches n + ½. The number of records of a run is thus its
rounded integral, and a constant rate puts each record into the middle of its share of time. No state passes from
record to record: any range can be computed in any order, by several processes, with the same result.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.workloads.contract import Workload
from headgate.workloads.shapes import require_length

Floats = NDArray[np.float64]
CELL_S = 64.0
"""The integral is computed separately in cells of this length."""
TOLERANCE_S = 1e-4
"""The largest error of due times; between the knots of a cell the rate counts as constant."""
SHORTEST_S = 2.0**-10
"""Pieces of a cell are not cut below this length, however steep the rate."""
CACHED_CELLS = 64


class RecordSchedule:
    """The records of a workload from time 0 on.

    >>> from headgate.workloads.shapes import Ramp
    >>> schedule = RecordSchedule(Ramp(start=0.0, end=2.0, over_s=2.0), seconds=3.0)
    >>> schedule.total, schedule.due_by(2.0), schedule.due_s(0, 4).round(2).tolist()
    (4, 2, [1.0, 1.73, 2.25, 2.75])
    """

    def __init__(self, workload: Workload, seconds: float) -> None:
        require_length("seconds", seconds)
        self._workload = workload
        self.seconds = seconds
        self.total = self._rounded(seconds)
        """The total number of records."""
        self._cached_knots: dict[int, tuple[Floats, Floats]] = {}

    def due_by(self, at_s: float) -> int:
        """Return how many records are due up to a time."""
        if at_s >= self.seconds:
            return self.total
        if at_s <= 0:
            return 0
        times_s, reached = self._knots(int(at_s // CELL_S))
        return math.floor(float(np.interp(at_s, times_s, reached)) + 0.5)

    def due_s(self, first: int, count: int) -> Floats:
        """Return when each of the records ``first`` … ``first + count - 1`` is due."""
        if not (first >= 0 and count >= 0 and first + count <= self.total):
            raise InputError(f"there are no records {first} to {first + count - 1}; there are {self.total} from 0 on.")
        if count == 0:
            return np.empty(0)
        wanted = np.arange(first, first + count) + 0.5
        times_s, reached = self._knots_around(wanted[0], wanted[-1])
        # The piece in which the integral first gets there: where nothing arrives for a while, it is the one before.
        after = np.clip(np.searchsorted(reached, wanted, side="left"), 1, len(reached) - 1)
        before = after - 1
        share = (wanted - reached[before]) / np.maximum(reached[after] - reached[before], np.finfo(np.float64).tiny)
        found: Floats = times_s[before] + np.clip(share, 0.0, 1.0) * (times_s[after] - times_s[before])
        return found

    def _rounded(self, at_s: float) -> int:
        return math.floor(self._reached(at_s) + 0.5)

    def _reached(self, at_s: float) -> float:
        return self._workload.arrivals(0.0, at_s)

    # ------------------------------------------------------------------------------------------------------- knots

    def _knots_around(self, lowest: float, highest: float) -> tuple[Floats, Floats]:
        """Return times with the integral at them that enclose two values of the integral."""
        cells = range(math.ceil(self.seconds / CELL_S))
        first = max(0, bisect_right(cells, lowest, key=lambda cell: self._reached(cell * CELL_S)) - 1)
        found = []
        for cell in cells[first:]:
            found.append(self._knots(cell))
            if found[-1][1][-1] >= highest:
                break
        if len(found) == 1:
            return found[0]
        times_s, reached = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return times_s, reached

    def _knots(self, cell: int) -> tuple[Floats, Floats]:
        if cell not in self._cached_knots:
            if len(self._cached_knots) >= CACHED_CELLS:
                del self._cached_knots[next(iter(self._cached_knots))]
            self._cached_knots[cell] = self._make_knots(cell)
        return self._cached_knots[cell]

    def _make_knots(self, cell: int) -> tuple[Floats, Floats]:
        """Return the ends of the pieces of a cell, with the integral there."""
        begin_s, end_s = cell * CELL_S, min((cell + 1) * CELL_S, self.seconds)
        knots = [(begin_s, self._reached(begin_s))]
        while (at_s := knots[-1][0]) < end_s:
            turn_s = min(end_s, max(self._workload.next_turn_s(at_s), at_s + SHORTEST_S))
            knots.extend(self._cut(*knots[-1], turn_s, self._reached(turn_s)))
        times_s, reached = np.array(knots).T
        # A closed form may fall by a rounding error where nothing arrives.
        return times_s, np.maximum.accumulate(reached)

    def _cut(self, from_s: float, reached: float, to_s: float, will_reach: float) -> Iterator[tuple[float, float]]:
        """Yield the knots after ``from_s`` up to ``to_s``: the fewest halvings within the tolerance."""
        length_s = to_s - from_s
        half_s = from_s + length_s / 2
        if length_s > SHORTEST_S and math.floor(reached + 0.5) != math.floor(will_reach + 0.5):
            halfway = self._reached(half_s)
            bend = abs(halfway - (reached + will_reach) / 2)
            if bend > TOLERANCE_S * (will_reach - reached) / length_s:
                yield from self._cut(from_s, reached, half_s, halfway)
                yield from self._cut(half_s, halfway, to_s, will_reach)
                return
        yield to_s, will_reach


def event_times_ms(due_s: Floats, start_ms: int) -> NDArray[np.int64]:
    """Return due times as whole milliseconds since the epoch, for a schedule that starts at ``start_ms``.

    >>> event_times_ms(np.array([0.145, 0.1455]), 1_700_000_000_000).tolist()
    [1700000000145, 1700000000145]
    """
    # 0.145 s are 144.99… ms in binary; a microsecond does not matter.
    return start_ms + np.floor(due_s * 1000 + 0.001).astype(np.int64)
