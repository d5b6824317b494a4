"""The older part of a long run, in a room that does not grow with it.

A course tells of every batch and every wait. Of a run that lasts for years only the newer part is kept so; the older
one is settled, as the course of a shorter span each time:

- Every sum stays what it was: how many records there were, how long the job was behind or an objective was violated,
  what was paid, the largest backlog.
- Latencies, and how long they were how long, are kept in narrow ranges (``compact``): they are off by at most half a
  percent. Whether they kept the bound of the objective is told exactly.
- When in a span something happened is lost: the worst of each comes first. There are at most ``MOST_SPANS`` of them,
  and those beside each other become one where there are more.
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
"""What is larger than this is all one."""


@lru_cache(maxsize=16)
def _edges(exact_at: float | None) -> Rows:
    """Where one range ends and the next begins: below the first and above the last there is one more each."""
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
    # A value at an edge belongs to the range below it, and a span that begins there lies above it.
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
    """The sum of the densities of all that cover each range, from their first to before the one past them.

    Nothing is taken off again, which would leave a rest of rounding where nothing is: what covers many ranges is put
    down at once for as many as are a power of two, and handed on to the two halves of these, the largest first.
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
class _Span:
    """What is kept of a span of time. Rows are seconds, and the two values between which something lay for so long."""

    from_s: Instant
    waits_from_s: Instant
    """The waits of the span before reach until here."""
    waits: Rows
    """How old the oldest record was."""
    loads: Rows
    """For how many seconds' arrivals the backlog stood."""
    arrived: float
    behind_s: float

    def joined(self, later: _Span, bound_s: float | None) -> _Span:
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
    """What has been settled so far, oldest first; ``bound_s`` is that of a latency objective."""

    def __init__(self, bound_s: float | None = None) -> None:
        self._bound_s = bound_s
        self._spans: list[_Span] = []
        self._results = rows((), 3)
        self._waited_until_s: Instant = 0.0
        self._max_backlog = 0.0

    @property
    def kept(self) -> int:
        """How many rows there are."""
        return len(self._results) + sum(len(span.waits) + len(span.loads) + 1 for span in self._spans)

    def add(self, course: Course) -> None:
        """Settle a span of time, which follows what has been settled before."""
        waits = rows((), 4) if course.waits is None else _outline(course.waits, self._waited_until_s)
        from_s, to_s, first, last = waits.T
        loads = course.loads()
        span = _Span(
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
        """The whole run, of which a course tells the rest; just that where nothing is settled."""
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
    """Waits from a time on that do not overlap: of two that do, the one that ends first is that of older records."""
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
    """How long the backlog was how many seconds' arrivals; where none arrive, any backlog is endless."""
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
