"""seasonal-naive: what was one period ago comes again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.base import Forecast, ForecasterBase, register
from headgate.policies.frame.settings import Settings

_LEAST_DIFFERENCES = 10


class SeasonalNaiveSettings(Settings):
    period: Annotated[int, Field(ge=1)] = 1440
    """Steps after which the series repeats itself; 1440 minutes are a day."""
    memory: Annotated[int, Field(ge=10)] = 300
    """Newest differences to the period before that the deviation is made of."""


@register
class SeasonalNaive(ForecasterBase[SeasonalNaiveSettings]):
    """The value of the same step one period ago; k periods ahead, the deviation is √k times that of one.

    >>> from headgate.forecast import make_forecaster
    >>> forecaster = make_forecaster("seasonal-naive", {"period": 4})
    >>> for step in range(20):
    ...     forecaster.observe(100.0 + 10.0 * (step % 4))
    >>> [float(value) for value in forecaster.forecast(5).mean]
    [100.0, 110.0, 120.0, 130.0, 100.0]
    """

    name = "seasonal-naive"
    summary = "The value of one period ago."
    Settings = SeasonalNaiveSettings

    def __init__(self, settings: SeasonalNaiveSettings) -> None:
        super().__init__(settings)
        self._season: deque[float] = deque(maxlen=settings.period)
        self._squares: deque[float] = deque(maxlen=settings.memory)

    def _observe(self, value: float) -> None:
        if len(self._season) == self.settings.period:
            self._squares.append((value - self._season[0]) ** 2)
        self._season.append(value)

    def _forecast(self, steps: int) -> Forecast | None:
        if len(self._squares) < _LEAST_DIFFERENCES:
            return None
        season = np.array(list(islice(self._season, min(steps, len(self._season)))))
        ahead = np.arange(steps)
        deviation = np.sqrt(np.mean(np.array(self._squares)) * (1 + ahead // self.settings.period))
        return Forecast.normal(season[ahead % self.settings.period], deviation)

    def _state(self) -> dict[str, JSON]:
        return {"season": list(self._season), "squares": list(self._squares)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._season = deque((float(value) for value in state["season"]), maxlen=self.settings.period)
        self._squares = deque((float(value) for value in state["squares"]), maxlen=self.settings.memory)
