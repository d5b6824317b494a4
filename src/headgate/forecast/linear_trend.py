"""linear-trend: the least-squares line through the last values, continued (giannakopoulos §3.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.base import Forecast, ForecasterBase, register
from headgate.policies.frame.settings import Settings

_COEFFICIENTS = 2


class LinearTrendSettings(Settings):
    window: Annotated[int, Field(ge=3)] = 120
    """Values that the line is fitted to; 120 steps of 5 s are the document's 10 min."""


@register
class LinearTrend(ForecasterBase[LinearTrendSettings]):
    """The line through the last ``window`` values, with the prediction error of a regression.

    The deviation at a step is s · √(1 + 1/n + (x − x̄)²/Σ(x − x̄)²), where s² is the residual sum of squares over n − 2.

    >>> from headgate.forecast import make_forecaster
    >>> forecaster = make_forecaster("linear-trend", {"window": 3})
    >>> for value in (1.0, 2.0, 4.0):
    ...     forecaster.observe(value)
    >>> forecast = forecaster.forecast(1)
    >>> round(float(forecast.mean[0]), 4), round(float(forecast.deviation[0]), 4)
    (5.3333, 0.7454)
    """

    name = "linear-trend"
    summary = "The least-squares line through the last values."
    Settings = LinearTrendSettings

    def __init__(self, settings: LinearTrendSettings) -> None:
        super().__init__(settings)
        self._values: deque[float] = deque(maxlen=settings.window)

    def _observe(self, value: float) -> None:
        self._values.append(value)

    def _forecast(self, steps: int) -> Forecast | None:
        count = len(self._values)
        if count <= _COEFFICIENTS:
            return None
        values = np.array(self._values)
        offsets = np.arange(count) - (count - 1) / 2
        spread = float(offsets @ offsets)
        slope = float(offsets @ values) / spread
        residuals = values - values.mean() - slope * offsets
        variance = float(residuals @ residuals) / (count - _COEFFICIENTS)
        ahead = (count - 1) / 2 + np.arange(1, steps + 1)
        deviation = np.sqrt(variance * (1 + 1 / count + ahead**2 / spread))
        return Forecast.normal(values.mean() + slope * ahead, deviation)

    def _state(self) -> dict[str, JSON]:
        return {"values": list(self._values)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._values = deque((float(value) for value in state["values"]), maxlen=self.settings.window)
