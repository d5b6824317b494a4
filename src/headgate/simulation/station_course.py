"""The course of one operator of a fluid network, from the times in which records waited there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from headgate.core.course import Course, Rows, rows
from headgate.core.types import Instant
from headgate.simulation.stream import Arrivals, Floats

_HAIR = 1e-9
"""Rates that differ by less than this share of them are equal."""
_ROUNDING = 1e-13
"""By this share of it a count of records may be off."""


class BusyPhase(NamedTuple):
    """A time in which a queue was never empty and the capacity stayed the same."""

    from_s: Instant
    until_s: Instant
    done_before: float
    """Records that were done as it began, since the start of the run."""
    done_after: float
    capacity_per_s: float

    def done_by(self, at_s: Instant) -> float:
        return min(self.done_after, self.done_before + self.capacity_per_s * (at_s - self.from_s))

    def cut(self, at_s: Instant) -> tuple[BusyPhase, BusyPhase]:
        """What lies before a time within it, and what comes after."""
        done = self.done_by(at_s)
        return self._replace(until_s=at_s, done_after=done), self._replace(from_s=at_s, done_before=done)


_NONE_CAME: tuple[Floats, Floats] = (np.zeros(1), np.zeros(1))


def course_of(
    now: Instant,
    arrivals: Arrivals,
    busy: Sequence[BusyPhase],
    at_once: float,
    *,
    from_s: Instant = 0.0,
    with_rest: bool = True,
) -> Course:
    """What happened from one time until another; so many records were done as they came.

    ``with_rest``: those that are not done by then are told of too.
    """
    # Where nothing ever waited nobody asks when which record came, and the line is long.
    came = _Came(*(arrivals.line() if busy else _NONE_CAME))
    waits, results, loads, behind = [rows((), 4)], [rows([(at_once, 0.0, 0.0)], 3)], [rows((), 5)], [rows((), 2)]
    for phase in busy:
        at_s = came.moments_s(phase)
        done = np.minimum(phase.done_after, phase.done_before + phase.capacity_per_s * (at_s - phase.from_s))
        arrived = came.by(at_s)
        since_s, to_s = at_s[:-1], at_s[1:]
        served, offered = np.diff(done), np.diff(arrived)
        age_s = np.maximum(0.0, since_s - came.next_s(done[:-1]))
        # While nothing is served it is the same record that gets older.
        last_age_s = to_s - np.where(served > 0, came.last_s(done[1:]), came.next_s(done[:-1]))
        waits.append(np.column_stack([since_s, to_s, age_s, last_age_s]))
        results.append(np.column_stack([served, np.minimum(age_s, last_age_s), np.maximum(age_s, last_age_s)]))
        backlog = np.maximum(0.0, arrived - done)
        loads.append(np.column_stack([since_s, to_s, backlog[:-1], backlog[1:], offered]))
        fell = offered > phase.capacity_per_s * (to_s - since_s) * (1 + _HAIR)
        behind.append(np.column_stack([since_s, to_s])[fell])
    left = max(0.0, arrivals.count - (busy[-1].done_after if busy else arrivals.count))
    if with_rest and busy and busy[-1].until_s >= now and left > _HAIR * arrivals.count:
        results.append(came.waiting(arrivals.count - left, now))
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


class _Came:
    """Arrivals as a line through points: how many by when, and when which one."""

    def __init__(self, times_s: Floats, counts: Floats) -> None:
        self._times_s = times_s
        self._counts = counts
        # Where nothing came for a while, rounding must not tell the record before from the one after.
        # After years a share of all that ever came would be many records: those that are looked at count.
        self._hair = max(_HAIR * max(1.0, float(counts[-1] - counts[0])), _ROUNDING * float(counts[-1]))

    def by(self, at_s: Floats) -> Floats:
        return np.asarray(np.interp(at_s, self._times_s, self._counts))

    def moments_s(self, phase: BusyPhase) -> Floats:
        """The moments of a phase between which both the backlog and the age of the oldest record are straight."""
        # A run of weeks has thousands of phases: of all that came, each looks only at its own.
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
        """When the first record after so many others came."""
        return self._at(count + self._hair, "right")

    def last_s(self, count: Floats) -> Floats:
        """When the last of so many records came."""
        return self._at(count - self._hair, "left")

    def _at(self, count: Floats, side: Literal["left", "right"]) -> Floats:
        after = np.clip(np.searchsorted(self._counts, count, side=side), 1, len(self._counts) - 1)
        low, high = self._counts[after - 1], self._counts[after]
        width = np.where(high - low > self._hair, high - low, 1.0)
        share = np.clip((count - low) / width, 0.0, 1.0)
        return np.asarray(self._times_s[after - 1] + share * (self._times_s[after] - self._times_s[after - 1]))

    def waiting(self, done: float, now: Instant) -> Rows:
        """Records that are not done, with what they have waited so far."""
        counts = np.concatenate([[done], self._counts[self._counts > done]])
        age_s = now - self.next_s(counts[:-1])
        last_age_s = now - self.last_s(counts[1:])
        return np.column_stack([np.diff(counts), last_age_s, age_s])
