"""Counts that never fall: Flink counts anew whenever it starts a job again.

>>> count = Count()
>>> [count.at(value) for value in (5.0, 7.0)]
[5.0, 7.0]
>>> count.begin_anew()
>>> [count.at(value) for value in (1.0, 0.5, 2.0)]
[8.0, 8.0, 9.0]
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.engines.flink.answers import Work


class Count:
    """One count that goes on over restarts. What falls within a life is jitter: busy time is a difference in Flink."""

    def __init__(self) -> None:
        self._before = 0.0
        self._last = 0.0

    def begin_anew(self) -> None:
        self._before, self._last = self._before + self._last, 0.0

    def at(self, value: float) -> float:
        self._last = max(self._last, value)
        return self.newest

    @property
    def newest(self) -> float:
        return self._before + self._last


@dataclass(frozen=True, slots=True)
class Counted:
    """What the subtasks of one vertex have done since they were first looked at, all together."""

    done: float
    written: float
    busy_s: float | None
    """``None`` where Flink does not know: of sources in the old form."""
    held_back_s: float
    """Seconds in which they could not go on because those downstream had no room."""
    available_s: float | None
    """Seconds that they had."""


@dataclass(slots=True)
class WorkCounts:
    """The counts of one vertex."""

    _done: Count = field(default_factory=Count)
    _written: Count = field(default_factory=Count)
    _busy: Count = field(default_factory=Count)
    _held_back: Count = field(default_factory=Count)
    _available: Count = field(default_factory=Count)

    def begin_anew(self) -> None:
        for count in (self._done, self._written, self._busy, self._held_back, self._available):
            count.begin_anew()

    def at(self, work: Work, read: float | None = None, *, has_work: bool = True) -> Counted:
        """``read`` is what a source has read: Flink counts only what comes from other vertices.

        Flink takes as busy what is neither idle nor held back, and counts a spell of those when it ends, or after five
        seconds. So a subtask that waits for its next record seems to be busy. Where nothing has moved and there was
        nothing to do (``has_work``) that is not believed; if it was true after all, it comes with the next reading.
        """
        before = self._done.newest, self._written.newest
        now = self._done.at(work.read if read is None else read), self._written.at(work.written)
        held_back_s = self._held_back.at((work.held_back_ms or 0.0) / 1000)
        if work.busy_ms is None:
            return Counted(*now, None, held_back_s, None)
        total_ms = work.busy_ms + (work.idle_ms or 0.0) + (work.held_back_ms or 0.0)
        is_believed = has_work or now != before
        busy_s = self._busy.at(work.busy_ms / 1000) if is_believed else self._busy.newest
        return Counted(*now, busy_s, held_back_s, self._available.at(total_ms / 1000))
