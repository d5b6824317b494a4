"""conformal: another forecaster, corrected so that its quantiles are exceeded as often as they say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.base import LEVELS, FloatArray, Forecast, ForecasterBase, make_forecaster, register
from headgate.policies.frame.settings import Settings

_LEVELS: FloatArray = np.array(LEVELS)
_LOWER = _LEVELS < 0.5
_LEAST_SCORES = 20


class ConformalSettings(Settings):
    forecaster: str = "exponential-smoothing"
    """The forecaster that is calibrated, by name."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Its settings, where they are not the default ones."""
    horizon: Annotated[int, Field(ge=1)] = 12
    """Steps ahead that are calibrated one by one; those beyond share the correction of the last."""
    memory: Annotated[int, Field(ge=_LEAST_SCORES)] = 300
    """Newest errors, per step ahead, that quantiles are read from."""
    gain: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """How fast a level is moved when its quantile was exceeded too often or too rarely."""


@register
class Conformal(ForecasterBase[ConformalSettings]):
    """Adaptive conformal calibration (Gibbs and Candès) of every level at every step ahead.

    An error is measured in deviations of the wrapped forecast. A quantile is that of the newest errors, not at its own
    level but at one that is moved after each step: up by ``gain · level`` when the value was above it, down by
    ``gain · (1 − level)`` when it was not. Whatever the series does, the share of values below a quantile then tends to
    its level: after T steps the two differ by about 1 / (gain · T) at most.

    A forecast that was all but certain and wrong makes an error of any number of deviations, and a few of them early in
    a series would ask for anything; so would a line through three values. No quantile therefore lies further beyond
    what was seen, or beyond the mean where that is further, than all that was seen lies apart. As long as there are too
    few errors to learn from, quantiles are those of the wrapped forecaster within the same bounds.
    """

    name = "conformal"
    summary = "Another forecaster, with quantiles that hold what they promise."
    Settings = ConformalSettings
    state_version = 2

    def __init__(self, settings: ConformalSettings) -> None:
        super().__init__(settings)
        self._inner = make_forecaster(settings.forecaster, settings.settings)
        horizon = settings.horizon
        # Forecasts of the steps to come: row r was made r + 1 steps before the next value, and says it in column r.
        self._forecasts: list[Forecast | None] = []
        self._moved: FloatArray = np.tile(_LEVELS[:, None], horizon)
        self._scores: FloatArray = np.full((settings.memory, horizon), np.nan)
        self._counts = np.zeros(horizon, dtype=np.int64)
        self._least, self._most = math.inf, -math.inf

    def _observe(self, value: float) -> None:
        self._least, self._most = min(self._least, value), max(self._most, value)
        for ahead, forecast in enumerate(self._forecasts):
            if forecast is not None:
                self._score(ahead, forecast, value)
        self._inner.observe(value)
        self._forecasts = [self._calibrated(self.settings.horizon), *self._forecasts[: self.settings.horizon - 1]]

    def _score(self, ahead: int, forecast: Forecast, value: float) -> None:
        deviation = _scale(forecast)[ahead]
        self._scores[self._counts[ahead] % self.settings.memory, ahead] = (value - forecast.mean[ahead]) / deviation
        self._counts[ahead] += 1
        quantiles = forecast.quantiles[:, ahead]
        # A value on the quantile itself belongs inside, on either side.
        below = np.where(_LOWER, value < quantiles, value <= quantiles)
        self._moved[:, ahead] += self.settings.gain * (_LEVELS - below)

    def _forecast(self, steps: int) -> Forecast | None:
        return self._calibrated(steps)

    def _calibrated(self, steps: int) -> Forecast | None:
        forecast = self._inner.forecast(steps)
        if forecast is None:
            return None
        scale = _scale(forecast)
        quantiles = np.empty_like(forecast.quantiles)
        corrected: FloatArray | None = None
        for step in range(steps):
            ahead = min(step, self.settings.horizon - 1)
            if step < self.settings.horizon or corrected is None:
                corrected = self._corrected(ahead)
            mean = forecast.mean[step]
            offsets = forecast.quantiles[:, step] - mean if corrected is None else scale[step] * corrected
            quantiles[:, step] = self._bounded(mean, offsets)
        return Forecast(forecast.mean, forecast.deviation, np.maximum.accumulate(quantiles, axis=0))

    def _bounded(self, mean: float, offsets: FloatArray) -> FloatArray:
        """Quantiles that are not further from what was seen than that lies apart."""
        apart = self._most - self._least
        lowest, highest = min(mean, self._least) - apart, max(mean, self._most) + apart
        return np.asarray(np.clip(mean + offsets, lowest, highest))

    def _corrected(self, ahead: int) -> FloatArray | None:
        """The quantiles of the errors so many steps ahead, or none as long as there are too few."""
        count = min(int(self._counts[ahead]), self.settings.memory)
        if count < _LEAST_SCORES:
            return None
        scores = np.sort(self._scores[:count, ahead])
        levels = self._moved[:, ahead]
        place = levels * (count - 1)
        inside: FloatArray = np.interp(place, np.arange(count), scores)
        # A level beyond every error seen asks for more than any of them, in proportion.
        spread = scores[-1] - scores[0]
        beyond = np.maximum(0.0, levels - 1) - np.maximum(0.0, -levels)
        return np.asarray(inside + 10 * spread * beyond)

    def _state(self) -> dict[str, JSON]:
        return {
            "inner": dict(self._inner.snapshot()),
            "said": [None if forecast is None else _saved(forecast) for forecast in self._forecasts],
            "moved": self._moved.tolist(),
            "scores": [[None if np.isnan(score) else score for score in row] for row in self._scores.tolist()],
            "counts": self._counts.tolist(),
            "seen": None if self._least > self._most else [self._least, self._most],
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._inner.restore(state["inner"])
        self._forecasts = [
            None if forecast is None else Forecast(*(np.array(part, dtype=np.float64) for part in forecast))
            for forecast in state["said"]
        ]
        self._moved = np.array(state["moved"], dtype=np.float64)
        self._scores = np.array(state["scores"], dtype=np.float64)
        self._counts = np.array(state["counts"], dtype=np.int64)
        seen = (math.inf, -math.inf) if state["seen"] is None else state["seen"]
        self._least, self._most = float(seen[0]), float(seen[1])


def _scale(forecast: Forecast) -> FloatArray:
    """The deviations, where they are not 0: a model that fits perfectly has errors too, as soon as it does not."""
    return np.asarray(np.maximum(forecast.deviation, 1e-9 * np.maximum(1.0, np.abs(forecast.mean))))


def _saved(forecast: Forecast) -> JSON:
    return [forecast.mean.tolist(), forecast.deviation.tolist(), forecast.quantiles.tolist()]
