"""The course of a micro-batch job, computed from a log of its batches.

Arrivals are interpolated linearly between batch starts and the moments at which the workload turns or bends. Rates
that jump are exact; curved rates have a negligible error.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.course import Course, Rows
from headgate.core.types import Instant
from headgate.simulation.settled import Settled
from headgate.simulation.stream import bends_s
from headgate.workloads.contract import SameWorkload, Workload

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
MOST_BATCHES = 500_000
"""Beyond this many batches (four weeks of a 5 s trigger) older ones are settled."""
_PARTS = 8
"""Batches are settled in parts of 1 / _PARTS of them, because computing the course of a part takes memory."""
_COLUMNS = 7
_HAIR = 1e-9
"""Rates whose relative difference is smaller than this count as equal."""


class LoggedBatch(NamedTuple):
    """The true data of a batch, unlike what a reading shows of it."""

    start_s: Instant
    end_s: Instant
    """When it ended, or will end."""
    records: float
    oldest_s: Instant
    """When the oldest of its records arrived."""
    newest_s: Instant
    """The last of its records arrived before this."""
    arrived: float
    """Records that had arrived between the start of the run and the start of the batch."""
    knots: Sequence[tuple[Instant, float]]
    """Pairs of time and share done, with straight lines between them."""


class _Before(NamedTuple):
    """The state before the first batch in the log that is not settled."""

    until_s: Instant = 0.0
    done: float = 0.0
    """Records of the settled batches."""
    oldest_s: Instant = 0.0
    """When the oldest record outside the settled batches arrived."""


class BatchLog:
    """The batches of a run that have ended: recent ones exactly, older ones of a long run settled (``settled.py``).

    ``excused_s`` of the wait for a trigger does not count as latency. ``bound_s`` is the bound of a latency objective.
    """

    def __init__(
        self, workload: Workload, excused_s: float = 0.0, bound_s: float | None = None, *, most: int = MOST_BATCHES
    ) -> None:
        self._workload = workload
        self._excused_s = excused_s
        self._most = most
        self._part = max(1, most // _PARTS)
        self._batches = array("d")
        self._knots = array("d")
        self._before = _Before()
        self._settled = Settled(bound_s)

    @property
    def retained(self) -> int:
        """How many numbers are stored for batches that are not settled."""
        return len(self._batches) + len(self._knots)

    def add(self, batch: LoggedBatch) -> None:
        _append(self._batches, self._knots, batch)
        if len(self._batches) > self._most * _COLUMNS:
            while len(self._batches) > self._part * _COLUMNS:
                self._settle(self._part)
            # Once settling has begun, the log never needs more room than this.
            self._most = 2 * self._part

    def _settle(self, count: int) -> None:
        """Settle the first ``count`` batches; at least one must remain."""
        batches, next_batch = self._batches[: count * _COLUMNS], self._batches[count * _COLUMNS :][:_COLUMNS]
        knots = 2 * int(sum(batches[_COLUMNS - 1 :: _COLUMNS]))
        next_start_s, _, next_oldest_s = next_batch[:3]
        log = _BatchSpan(self._workload, batches, self._knots[:knots], next_start_s, count, self._before)
        self._settled.add(log.course(None, self._excused_s))
        del self._batches[: count * _COLUMNS], self._knots[:knots]
        self._before = _Before(next_start_s, float(log.done[-1]), next_oldest_s)

    def course(self, now: Instant, oldest_s: Instant | None, running: LoggedBatch | None) -> Course:
        """Return the course of the run until now.

        - ``oldest_s``: when the oldest record arrived that is not done, if there is one
        - ``running``: the batch that has not ended, with its knots until now
        """
        batches, knots = self._batches[:], self._knots[:]
        if running is not None:
            _append(batches, knots, running)
        log = _BatchSpan(self._workload, batches, knots, now, len(self._batches) // _COLUMNS, self._before)
        return self._settled.followed_by(log.course(oldest_s, self._excused_s))


def _append(batches: array[float], knots: array[float], batch: LoggedBatch) -> None:
    times_s = (batch.start_s, batch.end_s, batch.oldest_s, batch.newest_s)
    batches.extend((*times_s, batch.records, batch.arrived, len(batch.knots)))
    knots.extend(chain.from_iterable(batch.knots))


class _BatchSpan:
    """Consecutive batches as arrays, with the arrivals until now. The last batch may be running."""

    def __init__(
        self, workload: Workload, batches: array[float], knots: array[float], now: Instant, ended: int, before: _Before
    ) -> None:
        table = np.array(batches, dtype=np.float64).reshape(-1, _COLUMNS)
        self.from_s = before.until_s
        self.now = now
        self.ended = ended
        self.start_s, self.end_s, self.oldest_s, self.newest_s, self.records, self.arrived, counts = table.T
        self.done = np.cumsum(np.concatenate([[before.done], self.records]))
        """Records of the batches before each one, and of all."""
        self.knots = np.array(knots, dtype=np.float64).reshape(-1, 2)
        self.knots_of = np.repeat(np.arange(len(table)), counts.astype(int))
        since_s = min(before.until_s, before.oldest_s)
        self.turns_s, at_turns = _turns(SameWorkload(workload), since_s, now)
        self.total = workload.arrivals(0.0, now)
        known_s = np.concatenate([[since_s], self.start_s, self.turns_s, [now]])
        known = np.concatenate([[workload.arrivals(0.0, since_s)], self.arrived, at_turns, [self.total]])
        order = np.argsort(known_s, kind="stable")
        self._known_s, self._known = known_s[order], known[order]

    @property
    def _is_running(self) -> bool:
        return self.ended < len(self.records)

    def arrived_by(self, at_s: Floats) -> Floats:
        return np.asarray(np.interp(at_s, self._known_s, self._known))

    def course(self, oldest_s: Instant | None, excused_s: float) -> Course:
        spans = np.column_stack([self.records, self.oldest_s, self.newest_s, self.end_s])[: self.ended]
        if oldest_s is not None:
            spans = np.vstack([spans, [self.total - self.done[self.ended], oldest_s, self.now, self.now]])
        _, oldest, _, until = spans.T
        results = self._results(spans)
        results[:, 1:] -= excused_s
        waited_s = np.maximum(0.0, until - oldest - excused_s)
        backlogs = self._backlogs()
        return Course(
            self.from_s,
            self.now,
            waits=np.column_stack([until - waited_s, until, np.zeros_like(until), waited_s]),
            results=results,
            loads=lambda: _lines(backlogs),
            behind=self._behind(),
            max_backlog=float(backlogs[:, 1].max()),
        )

    def _results(self, spans: Rows) -> Rows:
        """Return latencies of records that arrived in each span and were done at its end, split at its turns."""
        records, oldest_s, newest_s, end_s = spans.T
        first = np.searchsorted(self.turns_s, oldest_s, side="right")
        past = np.searchsorted(self.turns_s, newest_s, side="left")
        whole = first >= past
        results = [np.column_stack([records, end_s - newest_s, end_s - oldest_s])[whole]]
        if not whole.all():
            split = np.column_stack([records, oldest_s, newest_s, end_s])[~whole]
            results.append(self._results_between_turns(split, first[~whole], past[~whole]))
        return np.concatenate(results)

    def _results_between_turns(self, spans: Rows, first: Places, past: Places) -> Rows:
        """Return latencies of spans that include the turns from ``first`` to before ``past``, of each at least one."""
        records, oldest_s, newest_s, end_s = spans.T
        counts = past - first
        # The edges of all spans in one row: the oldest record, the turns, the newest record.
        begins = np.cumsum(counts + 2) - (counts + 2)
        edges_s = np.empty(int((counts + 2).sum()))
        edges_s[begins], edges_s[begins + counts + 1] = oldest_s, newest_s
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        edges_s[np.repeat(begins + 1, counts) + within] = self.turns_s[np.repeat(first, counts) + within]
        parts = counts + 1
        starts = np.cumsum(parts) - parts
        lower = np.repeat(begins - starts, parts) + np.arange(parts.sum())
        arrived = self.arrived_by(edges_s)
        between = arrived[lower + 1] - arrived[lower]
        totals = between[starts] + between[starts + 1]
        for place in np.flatnonzero(parts > 2):  # Rare: batches are mostly shorter than the steps of a load.
            totals[place] = between[starts[place] : starts[place] + parts[place]].sum()
        scale = np.where(totals > 0, records / np.where(totals > 0, totals, 1.0), 1.0)
        end_s = np.repeat(end_s, parts)
        return np.column_stack([between * np.repeat(scale, parts), end_s - edges_s[lower + 1], end_s - edges_s[lower]])

    def _backlogs(self) -> Rows:
        """Return time, backlog and arrivals at every moment where the slope of the backlog changes."""
        knot_s, share = self.knots.T
        done = self.done[self.knots_of] + share * self.records[self.knots_of]
        last_s, last = ([], []) if self._is_running else ([self.now], self.done[-1:])
        times_s = np.concatenate([[self.from_s], knot_s, self.start_s, last_s])
        counts = np.concatenate([self.done[:1], done, self.done[:-1], last])
        # At one moment a batch ends before the next one starts, and the knots of a jump keep their order.
        order = np.argsort(times_s, kind="stable")
        times_s, counts = times_s[order], counts[order]
        turns_s = self.turns_s[self.turns_s > self.from_s]
        places = np.searchsorted(times_s, turns_s)
        counts = np.insert(counts, places, np.interp(turns_s, times_s, counts))
        times_s = np.insert(times_s, places, turns_s)
        arrived = self.arrived_by(times_s)
        return np.column_stack([times_s, np.maximum(0.0, arrived - counts), arrived])

    def _behind(self) -> Rows:
        """Return spans between batch starts in which arrivals exceeded the throughput of the batch."""
        lasting_s = np.diff(self.start_s, append=self.now)
        counts_between = np.diff(self.arrived, append=self.total)
        through = np.where(np.isfinite(self.end_s), self.records / (self.end_s - self.start_s), 0.0) * lasting_s
        return np.column_stack([self.start_s, self.start_s + lasting_s])[counts_between > through * (1 + _HAIR)]


@lru_cache(maxsize=2)
def _turns(same: SameWorkload, from_s: Instant, until_s: Instant) -> tuple[Floats, Floats]:
    """Return the moments between two times at which a workload turns or bends, and the arrivals by then.

    Cached, because many sizes or policies are simulated on one load.
    """
    workload = same.workload
    found = []
    while from_s < until_s:
        turn_s = min(until_s, workload.next_turn_s(from_s))
        middle_s, last_s = (from_s + turn_s) / 2, math.nextafter(turn_s, from_s)
        is_flat = workload.rate_per_s(from_s) == workload.rate_per_s(middle_s) == workload.rate_per_s(last_s)
        found.extend([from_s] if is_flat else bends_s(from_s, turn_s))
        from_s = turn_s
    turns_s = np.array(found[1:])
    return turns_s, np.array([workload.arrivals(0.0, turn_s) for turn_s in turns_s.tolist()])


def _lines(backlogs: Rows) -> Rows:
    at_s, backlog, arrived = backlogs.T
    return np.column_stack([at_s[:-1], at_s[1:], backlog[:-1], backlog[1:], np.diff(arrived)])
