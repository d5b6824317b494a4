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
        return self._before + self._last


@dataclass(frozen=True, slots=True)
class Counted:
    """What the subtasks of one vertex have done since they were first looked at, all together."""

    done: float
    written: float
    busy_s: float | None
    """``None`` where Flink does not know: of sources in the old form."""
    idle_s: float
    held_back_s: float
    """Seconds in which they could not go on because those downstream had no room."""

    @property
    def available_s(self) -> float | None:
        return None if self.busy_s is None else self.busy_s + self.idle_s + self.held_back_s


@dataclass(slots=True)
class WorkCounts:
    """The counts of one vertex."""

    _done: Count = field(default_factory=Count)
    _written: Count = field(default_factory=Count)
    _busy: Count = field(default_factory=Count)
    _idle: Count = field(default_factory=Count)
    _held_back: Count = field(default_factory=Count)

    def begin_anew(self) -> None:
        for count in (self._done, self._written, self._busy, self._idle, self._held_back):
            count.begin_anew()

    def at(self, work: Work, read: float | None = None) -> Counted:
        """``read`` is what a source has read: Flink counts only what comes from other vertices."""
        return Counted(
            done=self._done.at(work.read if read is None else read),
            written=self._written.at(work.written),
            busy_s=None if work.busy_ms is None else self._busy.at(work.busy_ms / 1000),
            idle_s=self._idle.at((work.idle_ms or 0.0) / 1000),
            held_back_s=self._held_back.at((work.held_back_ms or 0.0) / 1000),
        )
