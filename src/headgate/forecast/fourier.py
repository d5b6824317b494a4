"""fourier: a sum of waves whose periods divide a day (or another period); what is left follows the last value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray, Forecast, ForecasterBase, register
from headgate.policies.frame.settings import Settings

_VAGUE = 1e4
"""Variance of a coefficient of which nothing is known, in squares of the first value's size."""


class FourierSettings(Settings):
    period: Annotated[int, Field(ge=2)] = 1440
    """Steps of the longest wave; 1440 minutes are a day."""
    waves: Annotated[int, Field(ge=1, le=50)] = 3
    """How many waves: of the period, of a half, of a third …"""
    memory: Annotated[float, Field(gt=1)] = 10_000.0
    """Steps over which an observation loses two thirds of its weight."""
    persistence: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """What is left, one step later, of the distance between the last value and the waves."""


@register
class Fourier(ForecasterBase[FourierSettings]):
    """Recursive least squares on a constant and ``waves`` pairs of sine and cosine, plus an autoregressive rest.

    >>> import math
    >>> from headgate.forecast import make_forecaster
    >>> forecaster = make_forecaster("fourier", {"period": 24, "waves": 1})
    >>> for step in range(96):
    ...     forecaster.observe(100 + 50 * math.sin(2 * math.pi * step / 24))
    >>> [round(float(value)) for value in forecaster.forecast(7).mean]
    [100, 113, 125, 135, 143, 148, 150]
    """

    name = "fourier"
    summary = "A daily cycle as a sum of waves."
    Settings = FourierSettings

    def __init__(self, settings: FourierSettings) -> None:
        super().__init__(settings)
        size = 1 + 2 * settings.waves
        self._count = 0
        self._weights: FloatArray = np.zeros(size)
        self._covariance: FloatArray = _VAGUE * np.eye(size)
        self._rest = 0.0
        self._variance = 0.0

    def _features(self, steps: FloatArray) -> FloatArray:
        angles = 2 * np.pi * np.outer(steps, np.arange(1, self.settings.waves + 1)) / self.settings.period
        return np.concatenate((np.ones((len(steps), 1)), np.sin(angles), np.cos(angles)), axis=1)

    def _observe(self, value: float) -> None:
        forgetting = 1 - 1 / self.settings.memory
        features = self._features(np.array([float(self._count)]))[0]
        gain = self._covariance @ features
        gain /= forgetting + float(features @ gain)
        surprise = value - float(features @ self._weights) - self.settings.persistence * self._rest
        self._weights = self._weights + gain * (value - float(features @ self._weights))
        # Forgetting must not make coefficients vaguer than they were at first: over a flat stretch it would, for ever.
        covariance = (self._covariance - np.outer(gain, features @ self._covariance)) / forgetting
        if np.trace(covariance) <= _VAGUE * len(features):
            self._covariance = covariance
        self._rest = value - float(features @ self._weights)
        self._count += 1
        if self._count > len(features):
            share = max(0.01, 1 / (self._count - len(features)))
            self._variance += share * (surprise * surprise - self._variance)

    def _forecast(self, steps: int) -> Forecast | None:
        if self._count < max(self.settings.period, 2 * len(self._weights)):
            return None
        ahead = np.arange(1.0, steps + 1.0)
        persistence = self.settings.persistence
        mean = self._features(self._count - 1 + ahead) @ self._weights + self._rest * persistence**ahead
        variance = self._variance * (1 - persistence ** (2 * ahead)) / (1 - persistence * persistence)
        return Forecast.normal(mean, np.sqrt(variance))

    def _state(self) -> dict[str, JSON]:
        return {
            "count": self._count,
            "weights": self._weights.tolist(),
            "covariance": self._covariance.tolist(),
            "rest": self._rest,
            "variance": self._variance,
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._count = int(state["count"])
        self._weights = np.array(state["weights"], dtype=np.float64)
        self._covariance = np.array(state["covariance"], dtype=np.float64)
        self._rest, self._variance = float(state["rest"]), float(state["variance"])
