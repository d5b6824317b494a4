"""ensemble: several forecasters, each with the weight that its recent errors have earned it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray, Forecast, ForecasterBase, make_forecaster, register
from headgate.policies.frame.settings import Settings

Name = Annotated[str, Field(min_length=1)]


class EnsembleSettings(Settings):
    members: Annotated[tuple[Name, ...], Field(min_length=1)] = ("linear-trend", "exponential-smoothing", "arma")
    """The forecasters that take part, by name, with their own default settings."""
    horizon: Annotated[int, Field(ge=1)] = 5
    """Steps ahead at which they are scored."""
    memory: Annotated[float, Field(gt=1)] = 100.0
    """Steps over which an error loses two thirds of its weight in the score."""
    sharpness: Annotated[float, Field(ge=0)] = 2.0
    """How much better errors count: weights are the mean square errors to the power of minus this."""


@register
class Ensemble(ForecasterBase[EnsembleSettings]):
    """The weighted average of its members' quantiles, scored online by their squared errors ``horizon`` steps ahead.

    A member that cannot forecast yet takes no part.
    """

    name = "ensemble"
    summary = "Several forecasters, weighted by how well they did."
    Settings = EnsembleSettings

    def __init__(self, settings: EnsembleSettings) -> None:
        super().__init__(settings)
        self._members = [make_forecaster(name) for name in settings.members]
        # What each member said of the steps to come, oldest first; nan where it said nothing.
        self._predictions: deque[list[float]] = deque(maxlen=settings.horizon)
        self._errors: FloatArray = np.full(len(self._members), np.nan)

    def _observe(self, value: float) -> None:
        if len(self._predictions) == self.settings.horizon:
            squares = (np.array(self._predictions[0]) - value) ** 2
            share = 1 / self.settings.memory
            followed = np.where(np.isnan(self._errors), squares, self._errors + share * (squares - self._errors))
            self._errors = np.where(np.isnan(squares), self._errors, followed)
        for member in self._members:
            member.observe(value)
        forecasts = [member.forecast(self.settings.horizon) for member in self._members]
        self._predictions.append(
            [float("nan") if forecast is None else float(forecast.mean[-1]) for forecast in forecasts]
        )

    def _forecast(self, steps: int) -> Forecast | None:
        forecasts = [member.forecast(steps) for member in self._members]
        known = [index for index, forecast in enumerate(forecasts) if forecast is not None]
        if not known:
            return None
        weights = self._weights(known)
        taking_part = [forecast for forecast in forecasts if forecast is not None]
        return Forecast(
            np.einsum("i,ij->j", weights, np.array([forecast.mean for forecast in taking_part])),
            np.einsum("i,ij->j", weights, np.array([forecast.deviation for forecast in taking_part])),
            np.einsum("i,ikj->kj", weights, np.array([forecast.quantiles for forecast in taking_part])),
        )

    def _weights(self, known: list[int]) -> FloatArray:
        errors = self._errors[known]
        if np.isnan(errors).all():
            return np.full(len(known), 1 / len(known))
        # A member without a score yet counts as the worst of the others.
        errors = np.where(np.isnan(errors), np.nanmax(errors), errors)
        # A member that made no error yet is not infinitely better than the others.
        floor = max(1e-12 * float(np.max(errors)), 1e-100)
        relative = np.maximum(errors, floor) / max(float(np.min(errors)), floor)
        weights = relative**-self.settings.sharpness
        return np.asarray(weights / weights.sum())

    def _state(self) -> dict[str, JSON]:
        return {
            "members": [dict(member.snapshot()) for member in self._members],
            "said": [[None if np.isnan(value) else value for value in row] for row in self._predictions],
            "errors": [None if np.isnan(value) else float(value) for value in self._errors],
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        for member, saved in zip(self._members, state["members"], strict=True):
            member.restore(saved)
        predicted = [[float("nan") if value is None else float(value) for value in row] for row in state["said"]]
        self._predictions = deque(predicted, maxlen=self.settings.horizon)
        self._errors = np.array([float("nan") if value is None else float(value) for value in state["errors"]])
