"""The state of ``proactive`` for one operator: exploration until a reliable model exists, then optimal control."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.forecast.base import AnyForecaster, EvenGrid, FloatArray
from headgate.policies.capacity.change_detection import ChangeDetector
from headgate.policies.capacity.performance import PerformanceModel, Point
from headgate.policies.frame.recommendations import Recommendations

_MOST_READINGS = 3000
_LONGEST_AHEAD = 4
"""Late readings need a longer forecast, up to this multiple of the horizon."""


class ControlMode(StrEnum):
    EXPLORATION = "exploration"
    OPTIMAL_CONTROL = "optimal-control"


@dataclass(slots=True)
class Explored:
    """Learned state of one operator; with a model it is in optimal control, without one in exploration."""

    grid: EvenGrid
    forecaster: AnyForecaster
    checked_s: Instant
    """When stability was last checked, or exploration began."""
    seen_s: Instant | None = None
    """Time of the newest reading learned from."""
    learned_s: Instant | None = None
    """Time of the newest measurement learned from; a batch may appear in many readings."""
    needed: Recommendations = field(default_factory=Recommendations)
    """Sizes that were needed recently."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_MOST_READINGS))
    violated: bool = False
    """Whether the objective was violated in this exploration, so that the capacity of an instance is known."""
    model: PerformanceModel | None = None
    detector: ChangeDetector | None = None

    @property
    def mode(self) -> ControlMode:
        return ControlMode.EXPLORATION if self.model is None else ControlMode.OPTIMAL_CONTROL

    def loads_ahead(self, now: Instant, horizon_s: float, certainty: float) -> FloatArray:
        """Return the predicted loads up to a horizon; empty while too little is known."""
        step_s, completed = self.grid.step_s, self.grid.completed
        if completed is None:
            return np.empty(0)
        passed = max(0, round((now - completed * step_s) / step_s))
        ahead = math.ceil(horizon_s / step_s)
        forecast = self.forecaster.forecast(min(passed, _LONGEST_AHEAD * ahead) + ahead)
        if forecast is None:
            return np.empty(0)
        loads: FloatArray = np.maximum(0.0, forecast.quantile(certainty)[-ahead:])
        return loads

    def to_json(self) -> dict[str, JSON]:
        return {
            "grid": self.grid.snapshot(),
            "forecaster": dict(self.forecaster.snapshot()),
            "checked_s": self.checked_s,
            "seen_s": self.seen_s,
            "learned_s": self.learned_s,
            "needed": self.needed.to_json(),
            "points": [list(point) for point in self.points],
            "violated": self.violated,
            "model": None if self.model is None else self.model.to_json(),
            "detector": None if self.detector is None else self.detector.snapshot(),
        }

    def restore(self, saved: Mapping[str, JSON], detector: Callable[[PerformanceModel], ChangeDetector]) -> None:
        """Restore saved state; ``detector`` makes the change detector of a model."""
        self.grid.restore(saved["grid"])
        self.forecaster.restore(saved["forecaster"])
        self.checked_s = float(saved["checked_s"])
        self.seen_s = None if saved["seen_s"] is None else float(saved["seen_s"])
        self.learned_s = None if saved["learned_s"] is None else float(saved["learned_s"])
        self.needed = Recommendations.from_json(saved["needed"])
        self.points.extend(Point(float(rate), int(size), float(pressure)) for rate, size, pressure in saved["points"])
        self.violated = bool(saved["violated"])
        if saved["model"] is not None:
            self.model = PerformanceModel.from_json(saved["model"])
            self.detector = detector(self.model)
            self.detector.restore(saved["detector"])
