"""How well autopilot foretells: what it expected a minute later, against what came.

The stated interval is widened or narrowed after each answer, so that in the long run nine of ten answers lie within it,
whatever the load (adaptive conformal inference).

>>> grades = Grades()
>>> interval = grades.expect(0.0, 80.0, 100.0, 120.0)
>>> grades.grade(60.0, 110.0)
>>> grades.coverage
1.0
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import compiled

LOW, MIDDLE, HIGH = 0.05, 0.5, 0.95


@compiled
def quantiles(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """The middle, and what lies below and above nine tenths."""
    # Stable, so that it does not matter which of equal ones comes first.
    order = np.argsort(values, kind="mergesort")
    reached = np.cumsum(weights[order])
    last = len(values) - 1
    low = values[order[min(np.searchsorted(reached, LOW * reached[-1]), last)]]
    middle = values[order[min(np.searchsorted(reached, MIDDLE * reached[-1]), last)]]
    high = values[order[min(np.searchsorted(reached, HIGH * reached[-1]), last)]]
    return float(low), float(middle), float(high)


AHEAD_S = 60.0
COVERAGE = 0.9
STEP = 0.1
STEP_EVERY_S = 10.0
"""Answers that follow each other faster count for less, together as much: those of one minute are alike, and only what
was stated before it could learn from them."""
SLACK = 0.02
"""A difference of this share of what is expected is chance."""
NARROWEST, WIDEST = math.log(0.2), math.log(1000.0)


@dataclass(frozen=True, slots=True)
class Interval:
    """What is expected, and within what it lies nine times out of ten."""

    low: float
    middle: float
    high: float


class Grades:
    """Of one quantity."""

    def __init__(self, slack: float = SLACK) -> None:
        self._slack = slack
        """A difference of this much is chance, whatever is expected."""
        self._open: deque[tuple[Instant, float, float]] = deque()
        self._width = 0.0
        """The logarithm of the factor by which intervals are widened."""
        self._answered_s: Instant | None = None
        self.answered = 0
        self.covered = 0

    @property
    def coverage(self) -> float | None:
        """The share of answers that lay within the interval stated."""
        return self.covered / self.answered if self.answered else None

    def expect(self, now: Instant, low: float, middle: float, high: float, slack: float = 0.0) -> Interval:
        """State an interval for ``AHEAD_S`` from now, and remember it; a difference of ``slack`` is chance now."""
        factor = math.exp(self._width)
        slack = max(self._slack, SLACK * middle, slack)
        stated = Interval(
            max(0.0, middle - factor * (middle - low + slack)), middle, middle + factor * (high - middle + slack)
        )
        self._open.append((now + AHEAD_S, stated.low, stated.high))
        return stated

    def grade(self, now: Instant, actual: float) -> None:
        """Compare what was expected for now with what is."""
        due: tuple[float, float] | None = None
        while self._open and self._open[0][0] <= now + 1e-6:
            at_s, low, high = self._open.popleft()
            if now - at_s < AHEAD_S / 4:
                due = (low, high)
        if due is None:
            return
        inside = due[0] <= actual <= due[1]
        self.answered += 1
        self.covered += inside
        since_s = STEP_EVERY_S if self._answered_s is None else max(0.0, now - self._answered_s)
        step = STEP * min(1.0, since_s / STEP_EVERY_S)
        self._answered_s = now
        moved = self._width - step * (1 - COVERAGE) if inside else self._width + step * COVERAGE
        self._width = max(NARROWEST, min(WIDEST, moved))

    def begin_anew(self) -> None:
        """Times are other than they were: what was expected for one of them is not graded."""
        self._open.clear()
        self._answered_s = None

    def to_json(self) -> dict[str, JSON]:
        return {
            "open": [list(one) for one in self._open],
            "width": self._width,
            "answered_s": self._answered_s,
            "answered": self.answered,
            "covered": self.covered,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self._open = deque((float(at_s), float(low), float(high)) for at_s, low, high in saved["open"])
        self._width = float(saved["width"])
        answered_s = saved.get("answered_s")
        self._answered_s = None if answered_s is None else float(answered_s)
        self.answered, self.covered = int(saved["answered"]), int(saved["covered"])
