"""Counters of a vertex that never fall, though Flink resets its own whenever it restarts a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.engines.flink.responses import Subtask, SubtaskWork

FEWEST_RECORDS = 20
"""Records per subtask below which no skew is reported."""


class SkewMeter:
    """Measures how unevenly records are spread over the subtasks of an operator, from reading to reading."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], float] = {}

    def restart(self) -> None:
        self._read.clear()

    def skew(self, operator: str, subtasks: Sequence[Subtask]) -> float | None:
        """Return the records of the busiest subtask over the mean; ``None`` for too few records."""
        now = {(operator, subtask.number): subtask.metrics.read for subtask in subtasks}
        more = [read - self._read.get(key, 0.0) for key, read in now.items()]
        self._read |= now
        total = sum(more)
        if len(more) < 2 or total < FEWEST_RECORDS * len(more):
            return None
        return max(1.0, max(more) * len(more) / total)


class RestartableCount:
    """A count that continues over restarts. Flink's busy time is a difference and jitters; a fall is ignored.

    >>> count = RestartableCount()
    >>> [count.at(value) for value in (5.0, 7.0)]
    [5.0, 7.0]
    >>> count.restart()
    >>> [count.at(value) for value in (1.0, 0.5, 2.0)]
    [8.0, 8.0, 9.0]
    """

    def __init__(self) -> None:
        self._before = 0.0
        self._last = 0.0

    def restart(self) -> None:
        self._before, self._last = self._before + self._last, 0.0

    def at(self, value: float) -> float:
        self._last = max(self._last, value)
        return self.newest

    @property
    def newest(self) -> float:
        return self._before + self._last


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The work of all subtasks of one vertex since the first reading."""

    done: float
    written: float
    busy_s: float | None
    """``None`` where Flink does not know it: for sources of the old API."""
    backpressured_s: float
    """Seconds in which subtasks waited because those downstream had no room."""
    available_s: float | None
    """Seconds of subtask time, whether used or not."""


@dataclass(slots=True)
class WorkCounts:
    """The counts of one vertex."""

    _done: RestartableCount = field(default_factory=RestartableCount)
    _written: RestartableCount = field(default_factory=RestartableCount)
    _busy: RestartableCount = field(default_factory=RestartableCount)
    _backpressured: RestartableCount = field(default_factory=RestartableCount)
    _available: RestartableCount = field(default_factory=RestartableCount)

    def restart(self) -> None:
        for count in (self._done, self._written, self._busy, self._backpressured, self._available):
            count.restart()

    def at(self, work: SubtaskWork, read: float | None = None, *, has_work: bool = True) -> WorkDone:
        """Return the work up to now. ``read`` is a source's input, as Flink counts only records from other vertices.

        Flink counts time that is neither idle nor backpressured as busy, and a spell of idleness only when it ends, or
        after five seconds. So a subtask that waits for its next record seems busy. Where nothing has moved and there
        was nothing to do (not ``has_work``), busy time is not counted yet; the next reading adds it if it was real.
        """
        before = self._done.newest, self._written.newest
        now = self._done.at(work.read if read is None else read), self._written.at(work.written)
        backpressured_s = self._backpressured.at((work.backpressured_ms or 0.0) / 1000)
        if work.busy_ms is None:
            return WorkDone(*now, None, backpressured_s, None)
        total_ms = work.busy_ms + (work.idle_ms or 0.0) + (work.backpressured_ms or 0.0)
        counts_busy = has_work or now != before
        busy_s = self._busy.at(work.busy_ms / 1000) if counts_busy else self._busy.newest
        return WorkDone(*now, busy_s, backpressured_s, self._available.at(total_ms / 1000))
