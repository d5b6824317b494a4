"""One operator of a fluid network: a queue in front of its ready instances, solved exactly from event to event."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from headgate.core.course import Course, Rows, rows
from headgate.core.types import Instant
from headgate.simulation.settled import Settled
from headgate.simulation.stream import Arrivals, Floats, Piece, first_time_s
from headgate.workloads.contract import Workload

_HAIR = 1e-9
"""Rates whose relative difference is smaller than this count as equal."""
_ROUNDING = 1e-13
"""The relative rounding error of a count of records."""


class BusyPhase(NamedTuple):
    """A span in which a queue was never empty and the capacity was constant."""

    from_s: Instant
    until_s: Instant
    done_before: float
    """Records done between the start of the run and the start of the phase."""
    done_after: float
    capacity_per_s: float

    def done_by(self, at_s: Instant) -> float:
        return min(self.done_after, self.done_before + self.capacity_per_s * (at_s - self.from_s))

    def cut(self, at_s: Instant) -> tuple[BusyPhase, BusyPhase]:
        """Split the phase at a time."""
        done = self.done_by(at_s)
        return self._replace(until_s=at_s, done_after=done), self._replace(from_s=at_s, done_before=done)


_NO_ARRIVALS: tuple[Floats, Floats] = (np.zeros(1), np.zeros(1))


def course_of(
    now: Instant,
    arrivals: Arrivals,
    busy: Sequence[BusyPhase],
    at_once: float,
    *,
    from_s: Instant = 0.0,
    with_rest: bool = True,
) -> Course:
    """Return what happened between two times; ``at_once`` records were done on arrival.

    ``with_rest`` includes the records that are not done.
    """
    # Where no record ever waited, the long line of arrivals is not needed.
    line = _ArrivalLine(*(arrivals.line() if busy else _NO_ARRIVALS))
    waits, results, loads, behind = [rows((), 4)], [rows([(at_once, 0.0, 0.0)], 3)], [rows((), 5)], [rows((), 2)]
    for phase in busy:
        at_s = line.moments_s(phase)
        done = np.minimum(phase.done_after, phase.done_before + phase.capacity_per_s * (at_s - phase.from_s))
        arrived = line.by(at_s)
        since_s, to_s = at_s[:-1], at_s[1:]
        served, offered = np.diff(done), np.diff(arrived)
        age_s = np.maximum(0.0, since_s - line.next_s(done[:-1]))
        # While nothing is served, the same record gets older.
        last_age_s = to_s - np.where(served > 0, line.last_s(done[1:]), line.next_s(done[:-1]))
        waits.append(np.column_stack([since_s, to_s, age_s, last_age_s]))
        results.append(np.column_stack([served, np.minimum(age_s, last_age_s), np.maximum(age_s, last_age_s)]))
        backlog = np.maximum(0.0, arrived - done)
        loads.append(np.column_stack([since_s, to_s, backlog[:-1], backlog[1:], offered]))
        fell = offered > phase.capacity_per_s * (to_s - since_s) * (1 + _HAIR)
        behind.append(np.column_stack([since_s, to_s])[fell])
    left = max(0.0, arrivals.count - (busy[-1].done_after if busy else arrivals.count))
    if with_rest and busy and busy[-1].until_s >= now and left > _HAIR * arrivals.count:
        results.append(line.waiting(arrivals.count - left, now))
    every_load = np.concatenate(loads)
    return Course(
        from_s,
        now,
        waits=np.concatenate(waits),
        results=np.concatenate(results),
        loads=lambda: every_load,
        behind=np.concatenate(behind),
        max_backlog=float(every_load[:, 2:4].max(initial=0.0)),
    )


class _ArrivalLine:
    """Arrivals as a line through points: counts by time, and times by count."""

    def __init__(self, times_s: Floats, counts: Floats) -> None:
        self._times_s = times_s
        self._counts = counts
        # Across a pause in the arrivals, rounding must not move a count from one side to the other. The tolerance is
        # relative to the records in view: after years, a share of all arrivals would be many records.
        self._hair = max(_HAIR * max(1.0, float(counts[-1] - counts[0])), _ROUNDING * float(counts[-1]))

    def by(self, at_s: Floats) -> Floats:
        return np.asarray(np.interp(at_s, self._times_s, self._counts))

    def moments_s(self, phase: BusyPhase) -> Floats:
        """Return moments of a phase between which the backlog and the age of the oldest record are linear."""
        # A run of weeks has thousands of phases: restrict the search to the arrivals of this one.
        first = int(np.searchsorted(self._times_s, phase.from_s, side="left"))
        last = int(np.searchsorted(self._times_s, phase.until_s, side="right"))
        found = [np.array([phase.from_s, phase.until_s]), self._times_s[first:last]]
        if phase.capacity_per_s > 0:
            most = phase.done_before + phase.capacity_per_s * (phase.until_s - phase.from_s)
            first = int(np.searchsorted(self._counts, phase.done_before - self._hair, side="left"))
            last = int(np.searchsorted(self._counts, most + self._hair, side="right"))
            found.append(phase.from_s + (self._counts[first:last] - phase.done_before) / phase.capacity_per_s)
        at_s = np.unique(np.concatenate(found))
        return at_s[(at_s >= phase.from_s) & (at_s <= phase.until_s)]

    def next_s(self, count: Floats) -> Floats:
        """Return when the first record after so many others arrived."""
        return self._at(count + self._hair, "right")

    def last_s(self, count: Floats) -> Floats:
        """Return when the last of so many records arrived."""
        return self._at(count - self._hair, "left")

    def _at(self, count: Floats, side: Literal["left", "right"]) -> Floats:
        after = np.clip(np.searchsorted(self._counts, count, side=side), 1, len(self._counts) - 1)
        low, high = self._counts[after - 1], self._counts[after]
        width = np.where(high - low > self._hair, high - low, 1.0)
        share = np.clip((count - low) / width, 0.0, 1.0)
        return np.asarray(self._times_s[after - 1] + share * (self._times_s[after] - self._times_s[after - 1]))

    def waiting(self, done: float, now: Instant) -> Rows:
        """Return the records that are not done, with their age."""
        counts = np.concatenate([[done], self._counts[self._counts > done]])
        age_s = now - self.next_s(counts[:-1])
        last_age_s = now - self.last_s(counts[1:])
        return np.column_stack([np.diff(counts), last_age_s, age_s])


MOST_RETAINED = 200_000
"""Beyond this many phases or points of the arrivals, the older half is settled."""


class Station:
    """A first-come-first-served queue.

    Beyond ``most_retained`` phases in which records waited, the older half is settled (``settled.py``).
    """

    def __init__(
        self,
        workload: Workload,
        service_rate_per_s: float,
        ready: int,
        late_after_s: float | None = None,
        *,
        most_retained: int = MOST_RETAINED,
    ) -> None:
        self._workload = workload
        self.service_rate_per_s = service_rate_per_s
        self.ready = ready
        self.backlog = 0.0
        self.arrivals = Arrivals(workload)
        self.processed = 0.0
        self.available_s = 0.0
        self.late = 0.0
        """Records that were not done in time, done by now or not."""
        self._late_after_s = late_after_s
        self._at_once = 0.0
        """Records that were done on arrival."""
        self._busy: list[BusyPhase] = []
        self._most_retained = most_retained
        self._most_points = most_retained
        self._settled = Settled(late_after_s)
        self._settled_s: Instant = 0.0

    @property
    def retained(self) -> int:
        """How many phases and points are stored for what is not settled or waits."""
        return len(self._busy) + self.arrivals.points

    def oldest_s(self) -> Instant | None:
        """Return when the oldest waiting record arrived; ``None`` when none waits."""
        return self.arrivals.time_s(self.processed) if self.backlog > 0 else None

    def serve(self, from_s: Instant, pieces: Sequence[Piece]) -> list[Piece]:
        """Take in a stream and return the stream of results."""
        counts = [self.arrivals.add(piece) for piece in pieces]
        done = []
        at_s = from_s
        for piece, rest in zip(pieces, counts, strict=True):
            whole: float | None = rest
            while at_s < piece.until_s:
                served = self._serve_phase(at_s, piece, whole)
                done.append(served)
                at_s, whole = served.until_s, None
        self.available_s += self.ready * (at_s - from_s)
        if len(self._busy) > self._most_retained:
            self._settle(self._busy[len(self._busy) // 2].from_s)
        if self.arrivals.points > self._most_points:
            self._settle(max(self._settled_s, self.arrivals.middle_s()))
            # Waiting records cannot be forgotten. Where there are many, settle again only after the points have grown
            # by half, so that the total effort stays linear.
            self._most_points = max(self._most_retained, self.arrivals.points * 3 // 2)
        return done

    def stay_idle(self, times_s: Sequence[Instant], place: int) -> int:
        """Serve up to each time from ``place`` on while the queue stays empty, and return the place of the first left.

        A faster ``serve`` for the most frequent case: the stream is the workload, and goes on without a turn.
        """
        workload, arrivals, capacity = self._workload, self.arrivals, self.ready * self.service_rate_per_s
        piece = arrivals.last_piece
        if self.backlog or piece is None:
            return place
        from_s = arrivals.until_s
        turn_s = workload.next_turn_s(from_s)
        end_rate = workload.rate_per_s(math.nextafter(turn_s, from_s)) if turn_s < math.inf else 0.0
        count, processed, at_once, available_s = arrivals.count, self.processed, self._at_once, self.available_s
        last_s = arrivals.continues_until_s
        while place < len(times_s):
            to_s = times_s[place]
            if to_s <= from_s or to_s > turn_s or workload.next_turn_s(from_s) != turn_s:
                break
            rate = workload.rate_per_s(from_s)
            last_rate = workload.rate_per_s(math.nextafter(to_s, from_s))
            if rate >= capacity or last_rate > capacity:
                break
            if rate == (end_rate if turn_s < math.inf else last_rate):
                if piece.share or piece.constant_per_s != rate:
                    break
                records = rate * (to_s - from_s)
            else:
                if piece.share != 1 or piece.constant_per_s or to_s > last_s:
                    break
                records = workload.arrivals(from_s, to_s)
            count += records
            processed += records
            at_once += records
            available_s += self.ready * (to_s - from_s)
            from_s = to_s
            place += 1
        if from_s > arrivals.until_s:
            arrivals.extend_last(from_s, count)
            self.processed, self._at_once, self.available_s = processed, at_once, available_s
        return place

    def _settle(self, until_s: Instant) -> None:
        """Settle the time until a moment, and forget arrivals before the oldest record that waited then."""
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
        """Serve while the queue stays empty, or stays filled, within one piece of the stream.

        ``whole`` is what arrives until the end of the piece, where that is known.
        """
        capacity, workload = self.ready * self.service_rate_per_s, self._workload
        rate = last_rate = piece.constant_per_s
        if piece.share:
            rate = piece.rate_per_s(workload, from_s)
            # Just before the end, because at the end a piece may jump to the rate of the next.
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
            # The backlog is smallest when the rising rate reaches the capacity.
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
        """Count records that become late: while more should be done than are done."""

        def lateness(at_s: Instant) -> float:
            return self.arrivals.by(at_s - bound_s) - phase.done_by(at_s)

        bends_s = (
            bend_s + bound_s for bend_s in self.arrivals.bends_s(phase.from_s - bound_s, phase.until_s - bound_s)
        )
        for from_s, to_s in pairwise((phase.from_s, *bends_s, phase.until_s)):
            first, last = lateness(from_s), lateness(to_s)
            if max(first, last) <= 0:
                continue
            # Between two bends, lateness is linear.
            late_from_s = from_s if first > 0 else to_s - (to_s - from_s) * last / (last - first)
            late_to_s = to_s if last > 0 else from_s + (to_s - from_s) * first / (first - last)
            self.late += self.arrivals.by(late_to_s - bound_s) - self.arrivals.by(late_from_s - bound_s)

    def course(self, now: Instant) -> Course:
        """Return what truly happened until now."""
        course = course_of(now, self.arrivals, self._busy, self._at_once, from_s=self._settled_s)
        return self._settled.followed_by(course)


def _until_s(phase: BusyPhase) -> Instant:
    return phase.until_s
