"""Streams of a fluid network: piece by piece a constant rate plus a multiple of the workload's."""

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
"""Into so many straight lines a curve is cut where its truth is told."""


def bends_s(from_s: float, until_s: float) -> list[float]:
    """The moments from one time on, the other left out, between which a curve is as good as straight."""
    return [from_s + part / BENDS * (until_s - from_s) for part in range(BENDS)]


def first_time_s(is_after: Callable[[float], bool], from_s: float, to_s: float) -> float:
    """The moment from which on a condition holds, to the last bit, by halving.

    It does not hold just after ``from_s``, holds at ``to_s`` and changes once in between.

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
    """When the first record after ``count`` others arrives, counted from a time on; ``until_s`` if it does not by then.

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
    """A stream until a time: a constant rate plus a multiple of the workload's. Within a piece it does not turn."""

    until_s: Instant
    constant_per_s: float
    share: float

    def rate_per_s(self, workload: Workload, at_s: Instant) -> float:
        return self.constant_per_s + self.share * workload.rate_per_s(at_s) if self.share else self.constant_per_s

    def arrivals(self, workload: Workload, from_s: Instant, to_s: Instant) -> float:
        constant = self.constant_per_s * (to_s - from_s)
        return constant + self.share * workload.arrivals(from_s, to_s) if self.share else constant


def merged(from_s: Instant, streams: Sequence[list[Piece]]) -> list[Piece]:
    """The sum of streams that all end at the same time."""
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
    """Everything that has come to an operator, so that one can tell when a record came."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._from_s: list[Instant] = []
        self._before: list[float] = []
        """Records that had come before each piece."""
        self._pieces: list[Piece] = []
        self._turn_s: Instant | None = None
        """When the workload turns next after the last piece began; ``None`` before that was asked."""
        self.points = 0
        """How many points the line has that goes through all that is kept."""
        self.count = 0.0
        self.until_s = 0.0

    def add(self, piece: Piece) -> float:
        """What came after what is known already; how many records that are."""
        came = piece.arrivals(self._workload, self.until_s, piece.until_s)
        if self._pieces and self._goes_on(piece):
            self._pieces[-1] = piece
        else:
            self._from_s.append(self.until_s)
            self._before.append(self.count)
            self._pieces.append(piece)
            self.points += _points_of(piece)
            self._turn_s = None
        self.count += came
        self.until_s = piece.until_s
        return came

    def _goes_on(self, piece: Piece) -> bool:
        last = self._pieces[-1]
        if last.share != piece.share or last.constant_per_s != piece.constant_per_s:
            return False
        if not piece.share:
            return True
        # A multiple of the workload goes on only as long as the workload does not turn.
        if self._turn_s is None:
            self._turn_s = self._workload.next_turn_s(self._from_s[-1])
        return self._turn_s >= piece.until_s

    def middle_s(self) -> Instant:
        """When the middle one of the pieces began."""
        return self._from_s[len(self._from_s) // 2]

    def forget(self, before_s: Instant, before: float) -> None:
        """Nobody will ask for what came before a time and before so many records had come."""
        gone = min(bisect_right(self._from_s, before_s), bisect_right(self._before, before)) - 1
        if gone > 0:
            self.points -= sum(map(_points_of, self._pieces[:gone]))
            del self._from_s[:gone], self._before[:gone], self._pieces[:gone]

    def by(self, at_s: Instant) -> float:
        """Records that had come by a time."""
        place = bisect_right(self._from_s, at_s) - 1
        if place < 0:
            return 0.0
        if at_s >= self.until_s:
            return self.count
        return self._before[place] + self._pieces[place].arrivals(self._workload, self._from_s[place], at_s)

    def time_s(self, count: float) -> Instant:
        """When the next record after so many others came; the end of what is known when none has."""
        place = max(0, bisect_right(self._before, count) - 1)
        while place < len(self._pieces):
            from_s, piece, rest = self._from_s[place], self._pieces[place], count - self._before[place]
            if not piece.share and piece.constant_per_s > 0:
                found_s = from_s + max(0.0, rest) / piece.constant_per_s
                if found_s < piece.until_s:
                    return found_s
            elif piece.arrivals(self._workload, from_s, piece.until_s) > rest:
                more = partial(self._more_came, piece, from_s, rest)
                return first_time_s(more, from_s, piece.until_s)
            place += 1
        return self.until_s

    def _more_came(self, piece: Piece, from_s: Instant, count: float, to_s: Instant) -> bool:
        return piece.arrivals(self._workload, from_s, to_s) > count

    def bends_s(self, from_s: Instant, to_s: Instant) -> list[Instant]:
        """Where what comes stops being a straight line, or nearly so, between two times."""
        first, past = max(0, bisect_right(self._from_s, from_s) - 1), bisect_right(self._from_s, to_s)
        found = chain.from_iterable(self._bends_of(place) for place in range(first, past))
        return [at_s for at_s in found if from_s < at_s < to_s]

    def _bends_of(self, place: int) -> list[Instant]:
        from_s, piece = self._from_s[place], self._pieces[place]
        return bends_s(from_s, piece.until_s) if piece.share else [from_s]

    def line(self) -> tuple[Floats, Floats]:
        """Times, and the records that had come by them; straight in between, or nearly so."""
        times_s: list[Instant] = []
        counts: list[float] = []
        for place, (from_s, before, piece) in enumerate(zip(self._from_s, self._before, self._pieces, strict=True)):
            found_s = self._bends_of(place)
            times_s.extend(found_s)
            counts.extend(before + piece.arrivals(self._workload, from_s, at_s) for at_s in found_s)
        return np.array([*times_s, self.until_s]), np.array([*counts, self.count])


def _points_of(piece: Piece) -> int:
    return BENDS if piece.share else 1
