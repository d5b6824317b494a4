"""What a forecaster must offer, and what a forecast is: a distribution for each step ahead, not a number.

A forecaster is fed one value per step of an evenly spaced series (:mod:`headgate.forecast.grid` makes one from
readings) and is asked for the steps that follow the newest value. It is pure but for what it has learned: no clock, no
I/O, no unseeded randomness. Checks of this contract ship in ``headgate.testing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError
from headgate.core.types import JSON

FloatArray: TypeAlias = NDArray[np.float64]

LEVELS: tuple[float, ...] = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
"""The levels at which every forecast carries its quantiles."""
SCORES: FloatArray = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
"""What the levels are for a standard normal distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The distribution of each of the next steps; position 0 is one step after the newest value.

    Values are in the unit of the series and may be negative where a model says so.

    >>> forecast = Forecast.normal(np.array([100.0, 110.0]), np.array([10.0, 20.0]))
    >>> [round(float(value), 1) for value in forecast.quantile(0.9)]
    [112.8, 135.6]
    """

    mean: FloatArray
    """Expected value per step."""
    deviation: FloatArray
    """Standard deviation per step."""
    quantiles: FloatArray
    """One row per level of ``LEVELS``, one column per step; no column decreases."""

    @classmethod
    def normal(cls, mean: FloatArray, deviation: FloatArray) -> Forecast:
        """The forecast of a model whose errors are normal."""
        return cls(mean, deviation, mean + SCORES[:, None] * deviation)

    @property
    def steps(self) -> int:
        return len(self.mean)

    def quantile(self, level: float) -> FloatArray:
        """The value per step that is not exceeded with this probability.

        Between two levels, linear on the normal scale; beyond the outermost, on along the line through the last two.
        """
        if not 0 < level < 1:
            raise InputError(f"quantile level {level} is not allowed; it must lie between 0 and 1.")
        score = NormalDist().inv_cdf(level)
        right = int(np.clip(np.searchsorted(SCORES, score), 1, len(SCORES) - 1))
        share = (score - SCORES[right - 1]) / (SCORES[right] - SCORES[right - 1])
        lower, upper = self.quantiles[right - 1], self.quantiles[right]
        between: FloatArray = lower + share * (upper - lower)
        return between

    def interval(self, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound per step that the value lies within with this probability, with equal tails."""
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


class Forecaster(Protocol):
    """Learns from an evenly spaced series and forecasts its next steps."""

    @property
    def name(self) -> str: ...

    def observe(self, value: float) -> None:
        """Take in the next value of the series; it must be finite."""
        ...

    def forecast(self, steps: int) -> Forecast | None:
        """The next steps after the newest value, or ``None`` as long as too little is known; asking changes nothing."""
        ...

    def snapshot(self) -> Mapping[str, JSON]:
        """All that was learned: a forecaster restored from it goes on identically."""
        ...

    def restore(self, state: Mapping[str, JSON]) -> None: ...
