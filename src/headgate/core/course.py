"""What became of the records and the instances of a run: the ground on which runs are scored.

A course holds no readings. A simulated job gives it as it truly was, a live one as its engine counted it; either way it
does not depend on how often anybody looked. It is made of rows of numbers, or ``None`` where nothing is known:

- ``waits``: from, to, and how old the oldest record that was not done was at both ends; straight in between. Rows may
  overlap: what violates a bound in any of them violates it.
- ``results``: how many records, and between which latencies they lie, evenly. Those that are not done yet count with
  what they have waited so far. A latency below 0 is that of a record whose wait does not count yet.
- ``loads``: from, to, the backlog at both ends, and how many records arrived in between.
- ``behind``: from and to, where the operator got through less than arrived and records waited.
- ``sizes``: from, to, ready instances, instances that were paid for.

>>> course = Course(0.0, 60.0, waits=rows([(0, 20, 0, 20)], 4), results=rows([(90, 0, 10), (10, 10, 20)], 3))
>>> course.late_share(15.0), span_s(above(course.waits, 15.0), course.from_s, course.to_s)
(0.05, 5.0)
>>> [round(latency_s, 6) for latency_s in course.latencies_s(0.5, 0.95)]
[5.555556, 15.0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float64]
POINT = 1e-6
"""Latencies that lie closer together than this are one."""


def rows(values: Iterable[tuple[float, ...]], width: int) -> Rows:
    """Rows of numbers, also when there are none."""
    return np.array(list(values), dtype=np.float64).reshape(-1, width)


@dataclass(frozen=True)
class Course:
    """What is known of one operator from one time to another."""

    from_s: float
    to_s: float
    waits: Rows | None = None
    results: Rows = field(default_factory=lambda: rows((), 3))
    loads: Callable[[], Rows | None] = lambda: None
    """Made only for those who ask: there are many of them, and one kind of objective needs them."""
    behind: Rows | None = None
    sizes: Rows = field(default_factory=lambda: rows((), 4))
    max_backlog: float | None = None
    counted_late: tuple[float, float] | None = None
    """Late records and all records, where the engine counted them against the bound itself."""

    @property
    def without_capacity(self) -> Rows:
        """From and to, where there was no instance at all."""
        return self.sizes[self.sizes[:, 2] <= 0][:, :2]

    def share_of_time(self, *parts: Rows) -> float:
        """Share of the time that is known in which at least one of some parts (from, to) lasts."""
        together = np.concatenate([rows((), 2), *(part[:, :2] for part in parts)])
        if self.to_s > self.from_s:
            return span_s(together, self.from_s, self.to_s) / (self.to_s - self.from_s)
        # One moment is all that is known: it counts in full.
        return float(((together[:, 0] <= self.to_s) & (together[:, 1] >= self.to_s)).any())

    def late_share(self, bound_s: float) -> float | None:
        """Share of the records whose latency is longer than a bound; none of none is no share of them."""
        if self.counted_late is not None:
            late, total = self.counted_late
            return late / total if total > 0 else 0.0
        count, shortest_s, longest_s = self.results.T
        if not count.sum() > 0:
            return None if self.waits is None else 0.0
        wide = longest_s - shortest_s > POINT
        width_s = np.where(wide, longest_s - shortest_s, 1.0)
        share = np.where(wide, np.clip((longest_s - bound_s) / width_s, 0.0, 1.0), longest_s > bound_s)
        return float((count * share).sum() / count.sum())

    def latencies_s(self, *shares: float) -> list[float | None]:
        """The latencies that these shares of the records did not exceed."""
        count, shortest_s, longest_s = self.results.T
        if not count.sum() > 0:
            return [None] * len(shares)
        wide = longest_s - shortest_s > POINT
        at_s, place = np.unique(np.concatenate([shortest_s, longest_s]), return_inverse=True)
        low, high = place[: len(count)], place[len(count) :]
        # Records per second of latency begin at the shortest and end at the longest; points are there at once.
        density = np.where(wide, count / np.where(wide, longest_s - shortest_s, 1.0), 0.0)
        slope = np.cumsum(
            np.bincount(low, density, minlength=len(at_s)) - np.bincount(high, density, minlength=len(at_s))
        )
        jump = np.bincount(high, np.where(wide, 0.0, count), minlength=len(at_s))
        grown = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(at_s))])
        after = grown + np.cumsum(jump)
        # A hair less than enough is rounding.
        wanted = np.array(shares) * after[-1] * (1 - 1e-12)
        upper = np.minimum(np.searchsorted(after, wanted), len(at_s) - 1)
        lower = np.maximum(upper - 1, 0)
        missing, steep = wanted - after[lower], slope[lower]
        rising = (upper > 0) & (steep > 0)
        found = np.where(rising, at_s[lower] + missing / np.where(rising, steep, 1.0), at_s[upper])
        return [max(0.0, float(value_s)) for value_s in np.minimum(found, at_s[upper])]

    def mean_ready(self) -> float:
        """Ready instances, averaged over time."""
        lasting_s = self.sizes[:, 1] - self.sizes[:, 0]
        if not len(lasting_s):
            return 0.0
        return float(np.average(self.sizes[:, 2], weights=lasting_s if lasting_s.sum() > 0 else None))

    def paid_s(self) -> float:
        """Instances that were paid for, times how long."""
        return float(((self.sizes[:, 1] - self.sizes[:, 0]) * self.sizes[:, 3]).sum())


def above(lines: Rows, bound: float) -> Rows:
    """From and to, where straight lines (from, to, value at both ends) lie above a bound."""
    from_s, to_s, first, last = lines[np.maximum(lines[:, 2], lines[:, 3]) > bound].T
    rise = np.where(first == last, 1.0, last - first)
    cross_s = from_s + (to_s - from_s) * (bound - first) / rise
    return np.stack([np.where(first > bound, from_s, cross_s), np.where(last > bound, to_s, cross_s)], axis=1)


def span_s(parts: Rows, from_s: float, to_s: float) -> float:
    """How long at least one of some parts lasts, between two times."""
    clipped = np.clip(parts, from_s, to_s)
    clipped = clipped[np.argsort(clipped[:, 0], kind="stable")]
    if not len(clipped):
        return 0.0
    reached_s = np.maximum.accumulate(clipped[:, 1])
    begun_s = np.maximum(clipped[1:, 0], reached_s[:-1])
    return float(clipped[0, 1] - clipped[0, 0] + np.maximum(0.0, clipped[1:, 1] - begun_s).sum())


def paid_from(course: Course, from_s: float) -> Course:
    """Return a course without the cost before a time; its records are unchanged."""
    sizes = course.sizes[course.sizes[:, 1] > from_s]
    begins_s = np.maximum(sizes[:, 0], from_s)
    return replace(course, from_s=max(course.from_s, from_s), sizes=np.column_stack([begins_s, sizes[:, 1:]]))
