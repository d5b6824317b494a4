"""Where a time and a value lie in a plot, and where its labels go."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.core.types import Instant
from headgate.core.units import format_duration

WIDTH, HEIGHT = 1000.0, 100.0
"""Of the box that lines are drawn in, whatever its size on the screen."""
_STEPS_S = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_LABELS = 5


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From some time ago to now, and a little beyond."""

    now_s: Instant
    span_s: float
    ahead_s: float = 0.0

    @property
    def from_s(self) -> Instant:
        return self.now_s - self.span_s

    @property
    def to_s(self) -> Instant:
        return self.now_s + self.ahead_s

    def share(self, at_s: Instant) -> float:
        """How far from the left edge a time lies, 0 to 1; beyond that outside the plot."""
        return (at_s - self.from_s) / (self.span_s + self.ahead_s)

    def x(self, at_s: Instant) -> float:
        return WIDTH * self.share(at_s)

    def ticks(self) -> list[tuple[Instant, str]]:
        """Round times before now, and now.

        >>> [label for _, label in TimeAxis(1000.0, 900.0).ticks()]
        ['−15m', '−10m', '−5m', 'now']
        """
        step_s = next((step for step in _STEPS_S if self.span_s / step < _MOST_LABELS), _STEPS_S[-1])
        count = math.floor(self.span_s / step_s + 1e-9)
        before = [(self.now_s - index * step_s, f"−{format_duration(index * step_s)}") for index in range(count, 0, -1)]
        return [*before, (self.now_s, "now")]


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """From 0 up to a round value."""

    top: float
    step: float

    @classmethod
    def reaching(cls, largest: float, *, whole: bool = False) -> ValueAxis:
        """An axis with two to four steps on which a value fits.

        >>> ValueAxis.reaching(37.0), ValueAxis.reaching(3, whole=True)
        (ValueAxis(top=40.0, step=20.0), ValueAxis(top=3.0, step=1.0))
        """
        largest = largest if math.isfinite(largest) and largest > 0 else 1.0
        if whole:
            largest = max(2.0, largest)
        decade = 10.0 ** math.floor(math.log10(largest))
        for factor in (0.5, 1.0, 2.0, 2.5, 5.0):
            step = factor * decade
            if whole and step != round(step):
                continue
            count = math.ceil(largest / step - 1e-9)
            if count <= 3:
                return cls(max(2, count) * step if whole else count * step, step)
        return cls(10 * decade, 5 * decade)

    def y(self, value: float) -> float:
        """From the top; what is above it lies outside."""
        return HEIGHT * (1 - value / self.top)

    def ticks(self) -> list[float]:
        """The labelled values, without 0."""
        return [index * self.step for index in range(1, round(self.top / self.step) + 1)]
