"""One operator of a fluid network: a queue in front of its ready instances, solved exactly from event to event."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from headgate.core.course import Course
from headgate.core.types import Instant
from headgate.simulation.search import first_time_s
from headgate.simulation.settled import Settled
from headgate.simulation.station_course import BusyPhase, course_of
from headgate.simulation.stream import Arrivals, Piece
from headgate.workloads.contract import Workload

MOST_KEPT = 200_000
"""Of more phases, or points of the line of what arrived, than this the older half is settled."""


class Station:
    """Serves what arrives, first come first served.

    Of more than ``most_kept`` phases in which something waited the older half is settled (``settled.py``).
    """

    def __init__(
        self,
        workload: Workload,
        service_rate_per_s: float,
        ready: int,
        late_after_s: float | None = None,
        *,
        most_kept: int = MOST_KEPT,
    ) -> None:
        self._workload = workload
        self.service_rate_per_s = service_rate_per_s
        self.ready = ready
        self.backlog = 0.0
        self.arrivals = Arrivals(workload)
        self.processed = 0.0
        self.available_s = 0.0
        self.late = 0.0
        """Records that were not done in time, whether they are done by now or not."""
        self._late_after_s = late_after_s
        self._at_once = 0.0
        """Records that were done as they came."""
        self._busy: list[BusyPhase] = []
        self._most_kept = most_kept
        self._most_points = most_kept
        self._settled = Settled(late_after_s)
        self._settled_s: Instant = 0.0

    @property
    def kept(self) -> int:
        """How many phases and points are kept of what is not settled, or waits."""
        return len(self._busy) + self.arrivals.points

    def oldest_s(self) -> Instant | None:
        """When the oldest record came that is not done; ``None`` when nothing waits."""
        return self.arrivals.time_s(self.processed) if self.backlog > 0 else None

    def serve(self, from_s: Instant, pieces: Sequence[Piece]) -> list[Piece]:
        """Take in a stream and give the stream of what gets done."""
        came = [self.arrivals.add(piece) for piece in pieces]
        done = []
        at_s = from_s
        for piece, rest in zip(pieces, came, strict=True):
            whole: float | None = rest
            while at_s < piece.until_s:
                served = self._serve_phase(at_s, piece, whole)
                done.append(served)
                at_s, whole = served.until_s, None
        self.available_s += self.ready * (at_s - from_s)
        if len(self._busy) > self._most_kept:
            self._settle(self._busy[len(self._busy) // 2].from_s)
        if self.arrivals.points > self._most_points:
            self._settle(max(self._settled_s, self.arrivals.middle_s()))
            # What waits cannot be forgotten: where that is much, it is looked through again when there is half as much
            # more, so that what is spent on it does not grow faster than it does.
            self._most_points = max(self._most_kept, self.arrivals.points * 3 // 2)
        return done

    def _settle(self, until_s: Instant) -> None:
        """Settle what happened until a time, and forget what came before the oldest record that waited then."""
        count = bisect_left(self._busy, until_s, key=_until_s)
        old, rest = self._busy[:count], self._busy[count:]
        if rest and rest[0].from_s < until_s:
            before, rest[0] = rest[0].cut(until_s)
            old.append(before)
        course = course_of(until_s, self.arrivals, old, 0.0, from_s=self._settled_s, with_rest=False)
        self._settled.add(course)
        self._busy, self._settled_s = rest, until_s
        done = rest[0].done_before if rest else self.processed
        self.arrivals.forget(until_s - (self._late_after_s or 0.0), done)

    def _serve_phase(self, from_s: Instant, piece: Piece, whole: float | None) -> Piece:
        """Serve for as long as the queue stays empty, or stays filled, within one piece of the stream.

        ``whole`` is what arrives until the end of the piece, where that is known.
        """
        capacity, workload = self.ready * self.service_rate_per_s, self._workload
        rate = last_rate = piece.constant_per_s
        if piece.share:
            rate = piece.rate_per_s(workload, from_s)
            # Just before its end, because at its end a piece may jump to the rate of the next one.
            last_rate = piece.rate_per_s(workload, math.nextafter(piece.until_s, from_s))
        if self.backlog == 0 and (rate < capacity or rate == capacity >= last_rate):
            until_s = piece.until_s
            if last_rate > capacity:
                until_s = first_time_s(lambda s: piece.rate_per_s(workload, s) > capacity, from_s, until_s)
            arrived = self._arrived(from_s, until_s, piece, whole)
            self.processed += arrived
            self._at_once += arrived
            return piece if until_s == piece.until_s else Piece(until_s, piece.constant_per_s, piece.share)
        until_s, runs_empty = self._busy_until(from_s, piece, capacity, (rate, last_rate))
        arrived = self._arrived(from_s, until_s, piece, whole)
        served = self.backlog + arrived if runs_empty else capacity * (until_s - from_s)
        self._log(BusyPhase(from_s, until_s, self.processed, self.processed + served, capacity))
        self.backlog = 0.0 if runs_empty else self.backlog + arrived - served
        self.processed += served
        return Piece(until_s, capacity, 0.0)

    def _arrived(self, from_s: Instant, until_s: Instant, piece: Piece, whole: float | None) -> float:
        if whole is not None and until_s == piece.until_s:
            return whole
        return piece.arrivals(self._workload, from_s, until_s)

    def _busy_until(
        self, from_s: Instant, piece: Piece, capacity: float, rates: tuple[float, float]
    ) -> tuple[Instant, bool]:
        """When a queue that is filling or filled runs empty, or the end of the piece if it does not."""
        workload = self._workload
        rate, last_rate = rates
        if rate == last_rate:
            empty_s = from_s + self.backlog / (capacity - rate) if rate < capacity else math.inf
            return (empty_s, True) if empty_s <= piece.until_s else (piece.until_s, False)

        def is_empty(at_s: Instant) -> bool:
            return self.backlog + piece.arrivals(workload, from_s, at_s) < capacity * (at_s - from_s)

        lowest_s = piece.until_s
        if rate < capacity < last_rate:
            # The queue shrinks until the rising rate has reached the capacity: now or never.
            lowest_s = first_time_s(lambda s: piece.rate_per_s(workload, s) > capacity, from_s, lowest_s)
        if is_empty(lowest_s):
            return first_time_s(is_empty, from_s, lowest_s), True
        return piece.until_s, False

    def _log(self, phase: BusyPhase) -> None:
        if self._late_after_s is not None:
            self._count_late(phase, self._late_after_s)
        last = self._busy[-1] if self._busy else None
        if last is not None and last.until_s == phase.from_s and last.capacity_per_s == phase.capacity_per_s:
            self._busy[-1] = last._replace(until_s=phase.until_s, done_after=phase.done_after)
        else:
            self._busy.append(phase)

    def _count_late(self, phase: BusyPhase, bound_s: float) -> None:
        """Records become late while those that should be done by now are more than those that are."""

        def lateness(at_s: Instant) -> float:
            return self.arrivals.by(at_s - bound_s) - phase.done_by(at_s)

        bends_s = (
            bend_s + bound_s for bend_s in self.arrivals.bends_s(phase.from_s - bound_s, phase.until_s - bound_s)
        )
        for from_s, to_s in pairwise((phase.from_s, *bends_s, phase.until_s)):
            first, last = lateness(from_s), lateness(to_s)
            if max(first, last) <= 0:
                continue
            # In between, lateness is a straight line.
            late_from_s = from_s if first > 0 else to_s - (to_s - from_s) * last / (last - first)
            late_to_s = to_s if last > 0 else from_s + (to_s - from_s) * first / (first - last)
            self.late += self.arrivals.by(late_to_s - bound_s) - self.arrivals.by(late_from_s - bound_s)

    def course(self, now: Instant) -> Course:
        """What truly happened until now."""
        course = course_of(now, self.arrivals, self._busy, self._at_once, from_s=self._settled_s)
        return self._settled.followed_by(course)


def _until_s(phase: BusyPhase) -> Instant:
    return phase.until_s
