"""The older part of a long run, in memory that does not grow with the run.

A course has a row for every batch and every wait. For runs of years only the recent part is stored that way; older
parts are settled, that is summarised per span of time:

- Sums are exact: records, time behind or in violation, cost, the largest backlog.
- Latencies and their durations fall into narrow ranges (``compact``) and are off by at most half a percent. Whether
  they met the bound of the objective stays exact.
- The order of events within a span is lost: the worst comes first. There are at most ``MOST_SPANS`` spans, and
  adjacent ones are joined when there would be more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.core.course import POINT, Course, Rows, rows
from headgate.core.types import Instant

Places = NDArray[np.intp]

RELATIVE_ERROR = 0.005
LEAST = 1e-3
MOST = 1e12
"""Larger values share one range."""


@lru_cache(maxsize=16)
def _edges(exact_at: float | None) -> Rows:
    """Return the boundaries between ranges; below the first and above the last there is one more range each."""
    count = math.ceil(math.log(MOST / LEAST) / math.log1p(RELATIVE_ERROR)) + 1
    edges = np.concatenate([[0.0], np.geomspace(LEAST, MOST, count)])
    return edges if exact_at is None else np.unique(np.append(edges, exact_at))


def compact(spans: Rows, exact_at: float | None = None) -> Rows:
    """Merge rows of weight, low and high value into at most one row per narrow range of values.

    Each weight lies evenly between its two values. No value moves by more than ``RELATIVE_ERROR`` of itself, or by
    ``LEAST`` where that is more. All values below 0 share one range. No weight is lost, and values above and below
    ``exact_at`` stay apart. Rows that are compact already come out unchanged.

    >>> compact(rows([(3.0, 2.0, 2.0), (1.0, 2.0, 2.0), (4.0, 7.0, 7.0)], 3)).tolist()
    [[4.0, 2.0, 2.0], [4.0, 7.0, 7.0]]
    """
    edges = _edges(exact_at)
    ranges = len(edges) + 1
    weight, low, high = spans[spans[:, 0] > 0].T
    last = np.searchsorted(edges, high, side="left")
    # A value at an edge belongs to the range below it; a span that begins there lies above it.
    first = np.where(high - low > POINT, np.searchsorted(edges, low, side="right"), last)
    inside = first == last
    weights = np.bincount(last[inside], weight[inside], minlength=ranges).astype(np.float64)
    lows, highs = np.full(ranges, np.inf), np.full(ranges, -np.inf)
    np.minimum.at(lows, first, low)
    np.maximum.at(highs, last, high)
    first, last, weight, low, high = first[~inside], last[~inside], weight[~inside], low[~inside], high[~inside]
    if len(first):
        density = weight / (high - low)
        weights += np.bincount(first, density * (edges[first] - low), minlength=ranges)
        weights += np.bincount(last, density * (high - edges[last - 1]), minlength=ranges)
        highs[first] = edges[first]
        lows[last] = np.minimum(lows[last], edges[last - 1])
        within = _covered(first + 1, last, density, ranges)
        full = np.flatnonzero(within > 0)
        lows[full], highs[full] = np.minimum(lows[full], edges[full - 1]), edges[full]
        weights[full] += within[full] * (edges[full] - edges[full - 1])
    found = np.flatnonzero(weights > 0)
    return np.column_stack([weights[found], lows[found], highs[found]])


def _covered(first: Places, past: Places, density: Rows, ranges: int) -> Rows:
    """Return for each range the sum of the densities of the spans that cover it, ``first`` to before ``past``.

    A running sum with subtractions would leave rounding errors where no span lies. Instead each span is split into
    blocks whose lengths are powers of two, and each block is passed on to its two halves, the largest first.
    """
    found = np.zeros(ranges)
    position = first.copy()
    levels = []
    for level in range(ranges.bit_length()):
        has = ((past - first) >> level & 1).astype(bool)
        levels.append(np.bincount(position[has], density[has], minlength=ranges).astype(np.float64))
        position[has] += 1 << level
    for level in range(len(levels) - 1, -1, -1):
        found += levels[level]
        if level:
            half = 1 << (level - 1)
            found[half:] += found[:-half].copy()
    return found


MOST_SPANS = 16


@dataclass(frozen=True, slots=True)
class _SettledSpan:
    """Summary of a span of time. Rows are seconds, and the two values between which a quantity lay for that long."""

    from_s: Instant
    waits_from_s: Instant
    """Where the waits of the previous span end."""
    waits: Rows
    """Age of the oldest record."""
    loads: Rows
    """Backlog, in seconds of arrivals."""
    arrived: float
    behind_s: float

    def joined(self, later: _SettledSpan, bound_s: float | None) -> _SettledSpan:
        return replace(
            self,
            waits=compact(np.concatenate([self.waits, later.waits]), bound_s),
            loads=compact(np.concatenate([self.loads, later.loads])),
            arrived=self.arrived + later.arrived,
            behind_s=self.behind_s + later.behind_s,
        )

    def wait_lines(self) -> Rows:
        return _worst_first(self.waits, self.waits_from_s)

    def load_lines(self) -> Rows:
        from_s, to_s, first, last = _worst_first(self.loads, self.from_s).T
        rate_per_s = self.arrived / lasting_s if (lasting_s := float((to_s - from_s).sum())) > 0 else 0.0
        backlogs = np.column_stack([first, last]) * (rate_per_s or 1.0)
        return np.column_stack([from_s, to_s, backlogs, rate_per_s * (to_s - from_s)])


class Settled:
    """The settled spans, oldest first; ``bound_s`` is the bound of a latency objective."""

    def __init__(self, bound_s: float | None = None) -> None:
        self._bound_s = bound_s
        self._spans: list[_SettledSpan] = []
        self._results = rows((), 3)
        self._waited_until_s: Instant = 0.0
        self._max_backlog = 0.0

    @property
    def retained(self) -> int:
        """How many rows are stored."""
        return len(self._results) + sum(len(span.waits) + len(span.loads) + 1 for span in self._spans)

    def add(self, course: Course) -> None:
        """Settle the course of the next span of time."""
        waits = rows((), 4) if course.waits is None else _outline(course.waits, self._waited_until_s)
        from_s, to_s, first, last = waits.T
        loads = course.loads()
        span = _SettledSpan(
            course.from_s,
            self._waited_until_s,
            compact(_unordered(to_s - from_s, first, last), self._bound_s),
            rows((), 3) if loads is None else compact(_relative(loads)),
            0.0 if loads is None else float(loads[:, 4].sum()),
            0.0 if course.behind is None else float((course.behind[:, 1] - course.behind[:, 0]).sum()),
        )
        self._spans.append(span)
        self._results = compact(np.concatenate([self._results, course.results]), self._bound_s)
        self._waited_until_s = max(self._waited_until_s, float(to_s.max(initial=0.0)))
        self._max_backlog = max(self._max_backlog, course.max_backlog or 0.0)
        if len(self._spans) > MOST_SPANS:
            pairs = zip(self._spans[::2], self._spans[1::2], strict=False)
            rest = self._spans[len(self._spans) // 2 * 2 :]
            self._spans = [*(older.joined(newer, self._bound_s) for older, newer in pairs), *rest]

    def followed_by(self, course: Course) -> Course:
        """Return the course of the whole run, of which ``course`` is the part that is not settled."""
        if not self._spans:
            return course
        waits = rows((), 4) if course.waits is None else _outline(course.waits, self._waited_until_s)
        behind = rows(((span.from_s, span.from_s + span.behind_s) for span in self._spans if span.behind_s), 2)
        return replace(
            course,
            from_s=self._spans[0].from_s,
            waits=np.concatenate([*(span.wait_lines() for span in self._spans), waits]),
            results=np.concatenate([self._results, course.results]),
            loads=lambda: self._loads(course),
            behind=behind if course.behind is None else np.concatenate([behind, course.behind]),
            max_backlog=max(self._max_backlog, course.max_backlog or 0.0),
        )

    def _loads(self, course: Course) -> Rows:
        rest = course.loads()
        return np.concatenate([*(span.load_lines() for span in self._spans), rows((), 5) if rest is None else rest])


def _outline(waits: Rows, from_s: Instant) -> Rows:
    """Return waits from a time on without overlaps: of two that overlap, the first to end is that of older records."""
    begin_s, until_s, first, last = waits.T
    reached_s = np.maximum.accumulate(np.concatenate([[from_s], until_s]))[:-1]
    begun_s = np.clip(reached_s, begin_s, until_s)
    lasting_s = np.where(until_s > begin_s, until_s - begin_s, 1.0)
    found = np.column_stack([begun_s, until_s, first + (begun_s - begin_s) / lasting_s * (last - first), last])
    lasting: Rows = found[until_s > begun_s]
    return lasting


def _unordered(lasting_s: Rows, first: Rows, last: Rows) -> Rows:
    return np.column_stack([lasting_s, np.minimum(first, last), np.maximum(first, last)])


def _relative(loads: Rows) -> Rows:
    """Return durations of the backlog in seconds of arrivals; without arrivals, any backlog is infinite."""
    from_s, to_s, first, last, arrived = loads.T
    lasting_s = to_s - from_s
    flows = (arrived > 0) & (lasting_s > 0)
    rate_per_s = np.where(flows, arrived / np.where(flows, lasting_s, 1.0), 1.0)
    endless = ~flows & (np.maximum(first, last) > 0)
    ends = [np.where(endless, MOST, np.minimum(MOST, end / rate_per_s)) for end in (first, last)]
    return _unordered(lasting_s, ends[0], ends[1])


def _worst_first(spread: Rows, from_s: Instant) -> Rows:
    """Rows of seconds and values as lines that fall from a time on."""
    lasting_s, low, high = spread[::-1].T
    until_s = from_s + np.cumsum(lasting_s)
    return np.column_stack([np.concatenate([[from_s], until_s[:-1]])[: len(until_s)], until_s, high, low])
