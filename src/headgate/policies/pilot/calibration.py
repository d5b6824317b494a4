"""Prediction intervals for one minute ahead that keep a coverage of 90 %.

Each interval is widened or narrowed after its outcome is known, so that in the long run nine of ten outcomes lie inside
it, whatever the load (adaptive conformal inference).

>>> calibrator = IntervalCalibrator()
>>> interval = calibrator.predict(0.0, 80.0, 100.0, 120.0)
>>> calibrator.score(60.0, 110.0)
>>> calibrator.coverage
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
    """Return the weighted 5 %, 50 % and 95 % quantiles."""
    # A stable sort, so the order of equal values does not matter.
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
"""Outcomes closer together than this count proportionally less: within a minute they are nearly the same outcome."""
SLACK = 0.02
"""Intervals are wider by this share of the expected value."""
NARROWEST, WIDEST = math.log(0.2), math.log(1000.0)


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """An expected value with its 90 % interval."""

    low: float
    middle: float
    high: float


class IntervalCalibrator:
    """States the intervals of one quantity and learns from their outcomes."""

    def __init__(self, slack: float = SLACK, first_factor: float = 1.0) -> None:
        self._slack = slack
        """Least amount by which intervals are wider, in the unit of the quantity."""
        self._open: deque[tuple[Instant, float, float]] = deque()
        self._width = math.log(first_factor)
        """Logarithm of the factor by which intervals are widened."""
        self._answered_s: Instant | None = None
        self.answered = 0
        self.covered = 0

    @property
    def coverage(self) -> float | None:
        """The share of outcomes that lay within their intervals."""
        return self.covered / self.answered if self.answered else None

    def predict(self, now: Instant, low: float, middle: float, high: float, slack: float = 0.0) -> PredictionInterval:
        """Return and remember the interval for ``AHEAD_S`` from now, wider by at least ``slack``."""
        factor = math.exp(self._width)
        slack = max(self._slack, SLACK * middle, slack)
        stated = PredictionInterval(
            max(0.0, middle - factor * (middle - low + slack)), middle, middle + factor * (high - middle + slack)
        )
        self._open.append((now + AHEAD_S, stated.low, stated.high))
        return stated

    def score(self, now: Instant, actual: float) -> None:
        """Compare the interval predicted for now with the actual value."""
        predicted: tuple[float, float] | None = None
        while self._open and self._open[0][0] <= now + 1e-6:
            at_s, low, high = self._open.popleft()
            if now - at_s < AHEAD_S / 4:
                predicted = (low, high)
        if predicted is None:
            return
        inside = predicted[0] <= actual <= predicted[1]
        self.answered += 1
        self.covered += inside
        since_s = STEP_EVERY_S if self._answered_s is None else max(0.0, now - self._answered_s)
        step = STEP * min(1.0, since_s / STEP_EVERY_S)
        self._answered_s = now
        moved = self._width - step * (1 - COVERAGE) if inside else self._width + step * COVERAGE
        self._width = max(NARROWEST, min(WIDEST, moved))

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset, so open predictions cannot be scored."""
        self._open.clear()
        self._answered_s = None

    def to_json(self) -> dict[str, JSON]:
        return {
            "open": [list(interval) for interval in self._open],
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
