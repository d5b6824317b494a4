"""Streams of a fluid network: piecewise a constant rate plus a multiple of the workload. Also searches in time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import Instant
from headgate.workloads.contract import Workload

BENDS = 64
"""How many straight lines approximate a curve in the course of a run."""


def bends_s(from_s: float, until_s: float) -> list[float]:
    """Return moments between which a curve is practically straight; the first time is included, the last is not."""
    return [from_s + part / BENDS * (until_s - from_s) for part in range(BENDS)]


def first_time_s(is_after: Callable[[float], bool], from_s: float, to_s: float) -> float:
    """Return the first moment at which a condition holds, exact to the last bit, by bisection.

    It must be false just after ``from_s`` and true at ``to_s``, and change once in between.

    >>> first_time_s(lambda at_s: at_s * at_s > 2.0, 0.0, 2.0)
    1.4142135623730951
    """
    low_s, high_s = from_s, to_s
    while low_s < (middle_s := (low_s + high_s) / 2) < high_s:
        if is_after(middle_s):
            high_s = middle_s
        else:
            low_s = middle_s
    return high_s


def arrival_time_s(workload: Workload, from_s: float, count: float, until_s: float) -> float:
    """Return when the first record after ``count`` others arrives, counted from a time; at most ``until_s``.

    >>> from headgate.workloads import parse_workload
    >>> round(arrival_time_s(parse_workload("spike:base=0,peak=10,at=60s,width=60s"), 0.0, 50.0, 600.0), 6)
    65.0
    """
    while from_s < until_s:
        if count <= 0 and workload.rate_per_s(from_s) > 0:
            return from_s
        turn_s = min(until_s, workload.next_turn_s(from_s))
        arrivals = workload.arrivals(from_s, turn_s)
        if arrivals > count:
            return first_time_s(partial(_more_arrive, workload, count, from_s), from_s, turn_s)
        count -= arrivals
        from_s = turn_s
    return until_s


def _more_arrive(workload: Workload, count: float, from_s: float, to_s: float) -> bool:
    return workload.arrivals(from_s, to_s) > count


Floats = NDArray[np.float64]


class Piece(NamedTuple):
    """A stream until a time: a constant rate plus a multiple of the workload's, without turns."""

    until_s: Instant
    constant_per_s: float
    share: float

    def rate_per_s(self, workload: Workload, at_s: Instant) -> float:
        return self.constant_per_s + self.share * workload.rate_per_s(at_s) if self.share else self.constant_per_s

    def arrivals(self, workload: Workload, from_s: Instant, to_s: Instant) -> float:
        constant = self.constant_per_s * (to_s - from_s)
        return constant + self.share * workload.arrivals(from_s, to_s) if self.share else constant


def merged(from_s: Instant, streams: Sequence[list[Piece]]) -> list[Piece]:
    """Return the sum of streams that end at the same time."""
    if len(streams) == 1:
        return streams[0]
    found = []
    positions = [0] * len(streams)
    at_s = from_s
    end_s = streams[0][-1].until_s
    while at_s < end_s:
        pieces = [stream[position] for stream, position in zip(streams, positions, strict=True)]
        at_s = min(piece.until_s for piece in pieces)
        found.append(Piece(at_s, sum(piece.constant_per_s for piece in pieces), sum(piece.share for piece in pieces)))
        positions = [position + (piece.until_s <= at_s) for position, piece in zip(positions, pieces, strict=True)]
    return found


class Arrivals:
    """The arrivals of an operator: counts by time, and arrival times by count."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._from_s: list[Instant] = []
        self._before: list[float] = []
        """Records that had arrived before each piece."""
        self._pieces: list[Piece] = []
        self._turn_s: Instant | None = None
        """Next turn of the workload after the start of the last piece; ``None`` before it is computed."""
        self.points = 0
        """How many points the line through all stored pieces has."""
        self.count = 0.0
        self.until_s = 0.0

    def add(self, piece: Piece) -> float:
        """Append a piece and return its number of records."""
        records = piece.arrivals(self._workload, self.until_s, piece.until_s)
        if self._pieces and self._continues(piece):
            self._pieces[-1] = piece
        else:
            self._from_s.append(self.until_s)
            self._before.append(self.count)
            self._pieces.append(piece)
            self.points += _points_of(piece)
            self._turn_s = None
        self.count += records
        self.until_s = piece.until_s
        return records

    @property
    def last_piece(self) -> Piece | None:
        return self._pieces[-1] if self._pieces else None

    def extend_last(self, until_s: Instant, count: float) -> None:
        """Let the last piece go on until a time, by which so many records have arrived in all."""
        self._pieces[-1] = self._pieces[-1]._replace(until_s=until_s)
        self.count, self.until_s = count, until_s

    def _continues(self, piece: Piece) -> bool:
        last = self._pieces[-1]
        if last.share != piece.share or last.constant_per_s != piece.constant_per_s:
            return False
        return not piece.share or self.continues_until_s >= piece.until_s

    @property
    def continues_until_s(self) -> Instant:
        """Until when a multiple of the workload continues the last piece: until the workload turns."""
        if self._turn_s is None:
            self._turn_s = self._workload.next_turn_s(self._from_s[-1])
        return self._turn_s

    def middle_s(self) -> Instant:
        """Return when the middle piece began."""
        return self._from_s[len(self._from_s) // 2]

    def forget(self, before_s: Instant, before: float) -> None:
        """Drop pieces before a time and before a count of records."""
        gone = min(bisect_right(self._from_s, before_s), bisect_right(self._before, before)) - 1
        if gone > 0:
            self.points -= sum(map(_points_of, self._pieces[:gone]))
            del self._from_s[:gone], self._before[:gone], self._pieces[:gone]

    def by(self, at_s: Instant) -> float:
        """Return the records that had arrived by a time."""
        place = bisect_right(self._from_s, at_s) - 1
        if place < 0:
            return 0.0
        if at_s >= self.until_s:
            return self.count
        return self._before[place] + self._pieces[place].arrivals(self._workload, self._from_s[place], at_s)

    def time_s(self, count: float) -> Instant:
        """Return when the next record after so many others arrived; the end of the known arrivals when none has."""
        place = max(0, bisect_right(self._before, count) - 1)
        while place < len(self._pieces):
            from_s, piece, rest = self._from_s[place], self._pieces[place], count - self._before[place]
            if not piece.share and piece.constant_per_s > 0:
                found_s = from_s + max(0.0, rest) / piece.constant_per_s
                if found_s < piece.until_s:
                    return found_s
            elif piece.arrivals(self._workload, from_s, piece.until_s) > rest:
                more = partial(self._more_arrive, piece, from_s, rest)
                return first_time_s(more, from_s, piece.until_s)
            place += 1
        return self.until_s

    def _more_arrive(self, piece: Piece, from_s: Instant, count: float, to_s: Instant) -> bool:
        return piece.arrivals(self._workload, from_s, to_s) > count

    def bends_s(self, from_s: Instant, to_s: Instant) -> list[Instant]:
        """Return the moments between two times at which arrivals stop being practically linear."""
        first, past = max(0, bisect_right(self._from_s, from_s) - 1), bisect_right(self._from_s, to_s)
        found = chain.from_iterable(self._bends_of(place) for place in range(first, past))
        return [at_s for at_s in found if from_s < at_s < to_s]

    def _bends_of(self, place: int) -> list[Instant]:
        from_s, piece = self._from_s[place], self._pieces[place]
        return bends_s(from_s, piece.until_s) if piece.share else [from_s]

    def line(self) -> tuple[Floats, Floats]:
        """Return times and the records that had arrived by them, practically linear in between."""
        times_s: list[Instant] = []
        counts: list[float] = []
        for place, (from_s, before, piece) in enumerate(zip(self._from_s, self._before, self._pieces, strict=True)):
            found_s = self._bends_of(place)
            times_s.extend(found_s)
            counts.extend(before + piece.arrivals(self._workload, from_s, at_s) for at_s in found_s)
        return np.array([*times_s, self.until_s]), np.array([*counts, self.count])


def _points_of(piece: Piece) -> int:
    return BENDS if piece.share else 1
