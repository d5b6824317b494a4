"""exponential-smoothing: a level with a damped trend or a season, each followed by its own share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from headgate.core.types import JSON
from headgate.forecast.base import Forecast, ForecasterBase, register
from headgate.policies.frame.settings import Settings

_LEAST_VALUES = 10
Gain = Annotated[float, Field(ge=0, le=1)]


class ExponentialSmoothingSettings(Settings):
    level_gain: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of a surprise that the level follows."""
    trend_gain: Gain = 0.05
    """Share of a surprise that the trend per step follows; with a season there is no trend, for the two together may
    amplify each other."""
    damping: Annotated[float, Field(gt=0, le=1)] = 0.95
    """What is left of the trend after each step ahead."""
    season_gain: Gain = 0.1
    """Share of a surprise that the season follows, at most what the level leaves of it."""
    period: Annotated[int, Field(ge=0)] = 0
    """Steps after which the season repeats itself; 0 is no season."""
    error_gain: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Share by which the variance of surprises follows the newest one."""

    @model_validator(mode="after")
    def _is_stable(self) -> Self:
        if self.period and self.season_gain > 1 - self.level_gain:
            raise ValueError(
                f"season_gain {self.season_gain:g} and level_gain {self.level_gain:g} add up to more than 1, "
                "so that surprises would be answered by larger ones"
            )
        return self


@register
class ExponentialSmoothing(ForecasterBase[ExponentialSmoothingSettings]):
    """Additive exponential smoothing in its error-correction form: ETS(A, Ad, N), or ETS(A, N, A) with a season.

    The variance h steps ahead is σ²·(1 + Σ c_j²) over j < h, c_j = α + β·(φ + … + φ^j) + γ where j is a whole period.

    >>> from headgate.forecast import make_forecaster
    >>> forecaster = make_forecaster("exponential-smoothing", {"damping": 1})
    >>> for value in range(200):
    ...     forecaster.observe(5.0 * value)
    >>> [round(float(value)) for value in forecaster.forecast(2).mean]
    [1000, 1005]
    """

    name = "exponential-smoothing"
    summary = "A level with a damped trend or a season, smoothed."
    Settings = ExponentialSmoothingSettings

    def __init__(self, settings: ExponentialSmoothingSettings) -> None:
        super().__init__(settings)
        self._count = 0
        self._level = 0.0
        self._trend = 0.0
        self._variance = 0.0
        self._season = np.zeros(max(1, settings.period))

    def _observe(self, value: float) -> None:
        settings, count = self.settings, self._count
        self._count += 1
        if count == 0:
            self._level = value
            return
        place = count % len(self._season)
        expected = self._level + settings.damping * self._trend + self._season[place]
        surprise = value - expected
        # The first surprises are averaged: none of them is typical.
        share = max(settings.error_gain, 1 / count)
        self._variance += share * (surprise * surprise - self._variance)
        self._level = self._level + settings.damping * self._trend + settings.level_gain * surprise
        if settings.period:
            self._season[place] += settings.season_gain * surprise
        else:
            self._trend = settings.damping * self._trend + settings.trend_gain * surprise

    def _forecast(self, steps: int) -> Forecast | None:
        if self._count < max(_LEAST_VALUES, self.settings.period):
            return None
        settings = self.settings
        damped = np.cumsum(settings.damping ** np.arange(1, steps + 1))
        ahead = np.arange(steps)
        season = self._season[(self._count + ahead) % len(self._season)]
        rest = (
            settings.season_gain * ((ahead[:-1] + 1) % settings.period == 0)
            if settings.period
            else settings.trend_gain * damped[:-1]
        )
        weights = settings.level_gain + rest
        variance = self._variance * (1 + np.concatenate(([0.0], np.cumsum(weights**2))))
        return Forecast.normal(self._level + damped * self._trend + season, np.sqrt(variance))

    def _state(self) -> dict[str, JSON]:
        return {
            "count": self._count,
            "level": self._level,
            "trend": self._trend,
            "variance": self._variance,
            "season": self._season.tolist(),
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._count = int(state["count"])
        self._level, self._trend = float(state["level"]), float(state["trend"])
        self._variance = float(state["variance"])
        self._season = np.array(state["season"], dtype=np.float64)
