"""Synthetic shapes. Each knows its rate and the closed form of its integral."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from headgate.core.errors import InputError
from headgate.workloads.contract import Workload

MOST_PER_S = 1e15
"""Beyond it counts of records have no exact form in a float, and sums of them soon have none at all."""


def require_rate(key: str, rate_per_s: float, most: float = MOST_PER_S) -> None:
    """Refuse a rate that is negative, infinite, beyond what can be counted, or not a number."""
    if not (math.isfinite(rate_per_s) and rate_per_s >= 0):
        raise InputError(f"{key}={plain(rate_per_s)} is not allowed; a rate must be finite and not negative.")
    if rate_per_s > most:
        raise InputError(f"{key}={rate_per_s:g} is not allowed; a rate is at most {most:g} records per second.")


def require_time(key: str, at_s: float) -> None:
    """Refuse a time before the start."""
    if not (math.isfinite(at_s) and at_s >= 0):
        raise InputError(f"{key}={plain(at_s)}s is not allowed; a time must be finite and not negative.")


def require_length(key: str, length_s: float) -> None:
    """Refuse a duration of nothing."""
    if not (math.isfinite(length_s) and length_s > 0):
        raise InputError(f"{key}={plain(length_s)}s is not allowed; a duration must be finite and above 0.")


def plain(value: float) -> str:
    """The shortest text that gives the same number again, without an exponent: ``20``, ``0.05``."""
    return np.format_float_positional(value, trim="-")


def _field_names(shape: Any) -> list[str]:
    return [field.name for field in fields(shape)]


class Shape(Workload):
    """A shape with a specification such as ``spike:base=10,peak=70,at=300s,width=300s``.

    Its fields are rates, and times where their name ends in ``_s``.
    """

    name: ClassVar[str]
    keys: ClassVar[Mapping[str, str]] = {}
    """The key of a field in a specification, where it is not the field's name without ``_s``."""
    example: ClassVar[str]

    @classmethod
    def key_of(cls, field: str) -> str:
        return cls.keys.get(field, field.removesuffix("_s"))

    @classmethod
    def parsers(cls, rate: Callable[[str], float], time_s: Callable[[str], float]) -> dict[str, Callable[[str], float]]:
        """Return the parser of each key, in the order of the fields."""
        return {cls.key_of(field): time_s if field.endswith("_s") else rate for field in _field_names(cls)}

    def __post_init__(self) -> None:
        for field in _field_names(self):
            require = require_time if field in ("at_s", "center_s") else require_length
            (require if field.endswith("_s") else require_rate)(self.key_of(field), getattr(self, field))

    def describe(self) -> str:
        texts = (
            f"{self.key_of(field)}={plain(getattr(self, field))}{'s' if field.endswith('_s') else ''}"
            for field in _field_names(self)
        )
        return f"{self.name}:{','.join(texts)}"


@dataclass(frozen=True)
class Constant(Shape):
    """The same rate for ever.

    >>> Constant(10.0).arrivals(0.0, 60.0)
    600.0
    """

    name = "constant"
    example = "constant:10"

    rate: float

    def rate_per_s(self, at_s: float) -> float:
        return self.rate

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self.rate * (to_s - from_s)

    def next_turn_s(self, at_s: float) -> float:
        return math.inf

    def describe(self) -> str:
        return f"constant:{plain(self.rate)}"


@dataclass(frozen=True)
class Periodic(Shape):
    """Peaks on top of a base rate: the base for ``low_s``, the peak for ``high_s``, and again.

    A period begins with the base (rouaux §5.2.5 puts the peaks on top of it and leaves the order open).

    >>> source = Periodic(base=10.0, peak=20.0, high_s=20.0, low_s=40.0)
    >>> source.rate_per_s(39.9), source.rate_per_s(40.0), source.arrivals(0.0, 60.0)
    (10.0, 20.0, 800.0)
    """

    name = "periodic"
    example = "periodic:base=10,peak=20,high=20s,low=40s"

    base: float
    peak: float
    high_s: float
    low_s: float

    def rate_per_s(self, at_s: float) -> float:
        return self.base if at_s % (self.high_s + self.low_s) < self.low_s else self.peak

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self.base * (to_s - from_s) + (self.peak - self.base) * (self._high_s(to_s) - self._high_s(from_s))

    def _high_s(self, until_s: float) -> float:
        """The time spent at the peak until now."""
        periods, rest_s = divmod(until_s, self.high_s + self.low_s)
        return periods * self.high_s + max(0.0, rest_s - self.low_s)

    def next_turn_s(self, at_s: float) -> float:
        period_s = self.high_s + self.low_s
        start_s = at_s // period_s * period_s
        return _first_after(at_s, start_s + self.low_s, start_s + period_s, start_s + period_s + self.low_s)


@dataclass(frozen=True)
class Sine(Shape):
    """A wave around its mean that starts at the mean and rises; what would be below 0 is 0.

    >>> wave = Sine(mean=50.0, amplitude=30.0, period_s=3600.0)
    >>> wave.rate_per_s(900.0), round(wave.arrivals(0.0, 3600.0))
    (80.0, 180000)
    """

    name = "sine"
    example = "sine:mean=50,amplitude=30,period=1h"

    mean: float
    amplitude: float
    period_s: float

    def rate_per_s(self, at_s: float) -> float:
        return max(0.0, self.mean + self.amplitude * math.sin(2 * math.pi * (at_s % self.period_s) / self.period_s))

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self._until(to_s) - self._until(from_s)

    @cached_property
    def _dry(self) -> tuple[float, float]:
        """The angles between which the wave would be below 0; the same angle twice when it never is."""
        if self.amplitude <= self.mean:
            return 1.5 * math.pi, 1.5 * math.pi
        dip = math.asin(self.mean / self.amplitude)
        return math.pi + dip, 2 * math.pi - dip

    @cached_property
    def _turns(self) -> tuple[float, ...]:
        """The times in one period where the rate turns, its end included."""
        angles = sorted({math.pi / 2, *self._dry, 2 * math.pi})
        return tuple(angle / (2 * math.pi) * self.period_s for angle in angles)

    def _until(self, at_s: float) -> float:
        periods, rest_s = divmod(at_s, self.period_s)
        per_angle = self.period_s / (2 * math.pi)
        return per_angle * (periods * self._area_of_period + self._area(rest_s / per_angle))

    @cached_property
    def _area_of_period(self) -> float:
        return self._area(2 * math.pi)

    def _area(self, angle: float) -> float:
        """The area under the clipped wave from 0 to an angle of at most one period."""
        falls, rises = self._dry
        area = self._unclipped(min(angle, falls))
        return area + self._unclipped(angle) - self._unclipped(rises) if angle > rises else area

    def _unclipped(self, angle: float) -> float:
        return self.mean * angle + self.amplitude * (1 - math.cos(angle))

    def next_turn_s(self, at_s: float) -> float:
        start_s = at_s // self.period_s * self.period_s
        next_s = start_s + self.period_s + self._turns[0]
        for turn_s in self._turns:
            if start_s + turn_s > at_s:
                return start_s + turn_s
        return next_s if next_s > at_s else math.inf


@dataclass(frozen=True)
class Gaussian(Shape):
    """One bell: ``base`` far away from the centre, ``peak`` (not base + peak) at the centre.

    >>> bell = Gaussian(base=10.0, peak=100.0, center_s=1800.0, sigma_s=480.0)
    >>> bell.rate_per_s(1800.0), bell.rate_per_s(100_000.0)
    (100.0, 10.0)
    """

    name = "gaussian"
    example = "gaussian:base=0,peak=100,center=30m,sigma=8m"

    base: float
    peak: float
    center_s: float
    sigma_s: float

    def rate_per_s(self, at_s: float) -> float:
        return self.base + (self.peak - self.base) * math.exp(-0.5 * ((at_s - self.center_s) / self.sigma_s) ** 2)

    def arrivals(self, from_s: float, to_s: float) -> float:
        bell_s = self.sigma_s * math.sqrt(math.pi / 2) * (self._erf(to_s) - self._erf(from_s))
        return self.base * (to_s - from_s) + (self.peak - self.base) * bell_s

    def _erf(self, at_s: float) -> float:
        return math.erf((at_s - self.center_s) / (self.sigma_s * math.sqrt(2)))

    def next_turn_s(self, at_s: float) -> float:
        return _first_after(at_s, self.center_s)


@dataclass(frozen=True)
class Ramp(Shape):
    """From one rate to another in a straight line, and then the second for ever.

    >>> slope = Ramp(start=10.0, end=100.0, over_s=600.0)
    >>> slope.rate_per_s(300.0), slope.rate_per_s(900.0)
    (55.0, 100.0)
    """

    name = "ramp"
    keys: ClassVar = {"start": "from", "end": "to"}
    example = "ramp:from=10,to=100,over=10m"

    start: float
    end: float
    over_s: float

    def rate_per_s(self, at_s: float) -> float:
        return self.start + (self.end - self.start) * min(1.0, at_s / self.over_s)

    def arrivals(self, from_s: float, to_s: float) -> float:
        sloping_s = max(0.0, min(to_s, self.over_s) - from_s)
        flat_s = to_s - from_s - sloping_s
        # The mean of a straight line is its value in the middle.
        return sloping_s * self.rate_per_s(from_s + sloping_s / 2) + flat_s * self.end

    def next_turn_s(self, at_s: float) -> float:
        return _first_after(at_s, self.over_s)


@dataclass(frozen=True)
class Spike(Shape):
    """A base rate with one peak of a width.

    >>> Spike(base=10.0, peak=70.0, at_s=300.0, width_s=300.0).arrivals(0.0, 900.0)
    27000.0
    """

    name = "spike"
    example = "spike:base=10,peak=70,at=300s,width=300s"

    base: float
    peak: float
    at_s: float
    width_s: float

    def rate_per_s(self, at_s: float) -> float:
        return self.peak if self.at_s <= at_s < self.at_s + self.width_s else self.base

    def arrivals(self, from_s: float, to_s: float) -> float:
        spike_s = max(0.0, min(to_s, self.at_s + self.width_s) - max(from_s, self.at_s))
        return self.base * (to_s - from_s) + (self.peak - self.base) * spike_s

    def next_turn_s(self, at_s: float) -> float:
        return _first_after(at_s, self.at_s, self.at_s + self.width_s)


def _first_after(at_s: float, *times_s: float) -> float:
    """The first of some sorted times that is after this one.

    Shapes that repeat give a time of the next period too: rounding may put the end of this one at ``at_s`` itself.
    """
    return next((time_s for time_s in times_s if time_s > at_s), math.inf)
