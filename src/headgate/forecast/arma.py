"""arma: ARMA(p, q) with a constant, its order chosen by AIC, refitted on a sliding window (imai §III-D, §IV-C)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from headgate.core.types import JSON
from headgate.forecast.arma_fit import ArmaModel, fit_arma, select_order
from headgate.forecast.base import Forecast, ForecasterBase, register
from headgate.policies.frame.settings import Settings


class ArmaSettings(Settings):
    window: Annotated[int, Field(ge=20)] = 100
    """Newest values that a model is fitted to; nothing is forecast before there are that many."""


@register
class Arma(ForecasterBase[ArmaSettings]):
    """The most likely ARMA model of the newest values.

    The order is chosen once, among all p, q ≤ 3, on the first ``window`` values; the parameters are fitted to the
    newest ``window`` values for every forecast. Errors are taken to be normal.

    The document's eq. 11 is no innovation variance (Σε̂²/n is meant), with the signs of its eq. 9 those of θ in eq. 12
    are positive, and the sum of eq. 13 ends at k − 1.

    >>> from headgate.forecast import make_forecaster
    >>> forecaster = make_forecaster("arma", {"window": 40})
    >>> for step in range(40):
    ...     forecaster.observe(100.0 + 10.0 * (step % 4))
    >>> [round(float(value)) for value in forecaster.forecast(4).mean]
    [100, 110, 120, 130]
    """

    name = "arma"
    summary = "ARMA(p, q) by AIC on a sliding window."
    Settings = ArmaSettings

    def __init__(self, settings: ArmaSettings) -> None:
        super().__init__(settings)
        self._values: deque[float] = deque(maxlen=settings.window)
        self._order: tuple[int, int] | None = None
        self._model: ArmaModel | None = None

    def _observe(self, value: float) -> None:
        self._values.append(value)
        self._model = None
        if self._order is None and len(self._values) == self.settings.window:
            self._order = select_order(np.array(self._values))

    def _forecast(self, steps: int) -> Forecast | None:
        if self._order is None:
            return None
        values = np.array(self._values)
        # A fit depends on the values alone, so that keeping it is no state that would have to be saved.
        self._model = self._model or fit_arma(values, self._order)
        means, variances = self._model.forecast(values, steps)
        return Forecast.normal(means, np.sqrt(variances))

    def _state(self) -> dict[str, JSON]:
        return {"values": list(self._values), "order": None if self._order is None else list(self._order)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        order = state["order"]
        self._order = None if order is None else (int(order[0]), int(order[1]))
        self._values = deque((float(value) for value in state["values"]), maxlen=self.settings.window)
        self._model = None
