"""Turns readings, which come when they come, into the evenly spaced series that forecasters learn from."""

from __future__ import annotations

import math

from headgate.core.errors import InputError
from headgate.core.types import JSON, Instant

_LONGEST_GAP_STEPS = 10_000
"""A longer silence is not filled: what came before says nothing about now."""


class EvenGrid:
    """Averages readings over steps; step k is what was read after ``(k - 1) · step_s`` and until ``k · step_s``.

    A reading describes the time until it was taken, so one taken exactly at the end of a step completes it. Steps
    without a reading lie on the line between their neighbours.

    >>> grid = EvenGrid(step_s=10)
    >>> grid.add(10, 100.0), grid.add(14, 110.0), grid.add(20, 130.0), grid.add(41, 180.0), grid.add(50, 200.0)
    ([100.0], [], [120.0], [], [143.33333333333334, 166.66666666666666, 190.0])
    """

    def __init__(self, step_s: float) -> None:
        if not step_s > 0:
            raise InputError(f"step {step_s} s is not allowed; it must be above 0.")
        self.step_s = step_s
        self._open: int | None = None
        self._sum = 0.0
        self._count = 0
        self._completed: int | None = None
        self._last = 0.0

    @property
    def completed(self) -> int | None:
        """The number of the newest completed step: it ended at ``completed · step_s``."""
        return self._completed

    def add(self, at_s: Instant, value: float) -> list[float]:
        """Take in a reading, newer than those before; gives the values of the steps that are complete now."""
        step = math.ceil(round(at_s / self.step_s, 9))
        done = self._close() if self._open is not None and step > self._open else []
        if self._completed is None or step > self._completed:
            self._open = step
            self._sum += value
            self._count += 1
            if at_s >= step * self.step_s - 1e-9 * self.step_s:
                done += self._close()
        return done

    def _close(self) -> list[float]:
        assert self._open is not None
        step, value = self._open, self._sum / self._count
        self._open, self._sum, self._count = None, 0.0, 0
        done = []
        if self._completed is not None:
            gap = step - self._completed
            if gap <= _LONGEST_GAP_STEPS:
                rise = (value - self._last) / gap
                done = [self._last + rise * position for position in range(1, gap)]
        self._completed, self._last = step, value
        return [*done, value]

    def snapshot(self) -> JSON:
        return [self._open, self._sum, self._count, self._completed, self._last]

    def restore(self, state: JSON) -> None:
        self._open, self._sum, self._count, self._completed, self._last = state
