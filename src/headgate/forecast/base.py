"""The contract of forecasters, their base class, and the registry that finds them by name.

A forecaster learns one value per step of an evenly spaced series (:class:`EvenGrid` makes one from readings) and
forecasts the steps after the newest value. Apart from what it has learned it is pure: no clock, no I/O, no unseeded
randomness. A forecaster is one file in this package: a class that extends :class:`ForecasterBase`, carries ``name``,
``summary`` and a ``Settings`` class, and is decorated with :func:`register`. The contract checks of
``headgate.testing`` then run on it automatically.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, StateError, UnknownNameError
from headgate.core.plugins import load_plugin, package_of, plugins
from headgate.core.types import JSON, Instant
from headgate.core.units import key_texts
from headgate.policies.frame.settings import Settings, make_settings

FloatArray: TypeAlias = NDArray[np.float64]

LEVELS: tuple[float, ...] = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
"""The levels at which every forecast carries its quantiles."""
SCORES: FloatArray = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
"""What the levels are for a standard normal distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The distribution of each of the next steps; position 0 is one step after the newest value.

    Values are in the unit of the series and may be negative.

    >>> forecast = Forecast.normal(np.array([100.0, 110.0]), np.array([10.0, 20.0]))
    >>> [round(float(value), 1) for value in forecast.quantile(0.9)]
    [112.8, 135.6]
    """

    mean: FloatArray
    """Expected value per step."""
    deviation: FloatArray
    """Standard deviation per step."""
    quantiles: FloatArray
    """One row per level of ``LEVELS``, one column per step; no column decreases."""

    @classmethod
    def normal(cls, mean: FloatArray, deviation: FloatArray) -> Forecast:
        """The forecast of a model whose errors are normal."""
        return cls(mean, deviation, mean + SCORES[:, None] * deviation)

    @property
    def steps(self) -> int:
        return len(self.mean)

    def quantile(self, level: float) -> FloatArray:
        """Return the value per step that is not exceeded with this probability.

        Interpolated linearly on the normal scale, and extrapolated along the line through the two outermost levels.
        """
        if not 0 < level < 1:
            raise InputError(f"quantile level {level} is not allowed; it must lie between 0 and 1.")
        score = NormalDist().inv_cdf(level)
        right = int(np.clip(np.searchsorted(SCORES, score), 1, len(SCORES) - 1))
        share = (score - SCORES[right - 1]) / (SCORES[right] - SCORES[right - 1])
        lower, upper = self.quantiles[right - 1], self.quantiles[right]
        between: FloatArray = lower + share * (upper - lower)
        return between

    def interval(self, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Return the prediction interval per step with this coverage and equal tails."""
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


class Forecaster(Protocol):
    """Learns from an evenly spaced series and forecasts its next steps."""

    @property
    def name(self) -> str: ...

    def observe(self, value: float) -> None:
        """Take in the next value of the series; it must be finite."""
        ...

    def forecast(self, steps: int) -> Forecast | None:
        """Return the steps after the newest value, or ``None`` while too little is known; changes no state."""
        ...

    def snapshot(self) -> Mapping[str, JSON]:
        """Return the learned state; a forecaster restored from it continues identically."""
        ...

    def restore(self, state: Mapping[str, JSON]) -> None: ...


S = TypeVar("S", bound=Settings)
ENTRY_POINTS = "headgate.forecasters"


class ForecasterBase(ABC, Generic[S]):
    """The frame of a forecaster: settings, checked input and saved state."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line, for lists."""
    Settings: ClassVar[type[Settings]]
    state_version: ClassVar[int] = 1

    def __init__(self, settings: S) -> None:
        self.settings = settings

    def observe(self, value: float) -> None:
        if not math.isfinite(value):
            raise InputError(f"value {value} cannot be learned from; it must be finite.")
        self._observe(float(value))

    def forecast(self, steps: int) -> Forecast | None:
        if steps < 1:
            raise InputError(f"a forecast of {steps} steps is not possible; it must be at least 1.")
        return self._forecast(steps)

    @abstractmethod
    def _observe(self, value: float) -> None:
        """Take in the next value, which is finite."""

    @abstractmethod
    def _forecast(self, steps: int) -> Forecast | None:
        """The next steps, of which there is at least one."""

    def snapshot(self) -> Mapping[str, JSON]:
        return {"forecaster": self.name, "version": self.state_version, **self._state()}

    def restore(self, state: Mapping[str, JSON]) -> None:
        expected = (self.name, self.state_version)
        received = (state.get("forecaster"), state.get("version"))
        if received != expected:
            raise StateError(
                f"saved state is of forecaster {received[0]!r} version {received[1]!r}; "
                f"{expected[0]!r} version {expected[1]!r} is needed."
            )
        try:
            self._restore_state(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"saved state of forecaster {self.name!r} is damaged: {error!r}.") from error

    @abstractmethod
    def _state(self) -> dict[str, JSON]:
        """What was learned, beyond name and version."""

    @abstractmethod
    def _restore_state(self, state: Mapping[str, JSON]) -> None: ...


AnyForecaster = ForecasterBase[Any]
_REGISTRY: dict[str, type[AnyForecaster]] = {}
F = TypeVar("F", bound=type[AnyForecaster])


def register(forecaster: F) -> F:
    """Class decorator: makes a forecaster known by its name."""
    if forecaster.name in _REGISTRY and _REGISTRY[forecaster.name] is not forecaster:
        raise ValueError(f"two forecasters are called {forecaster.name!r}")
    _REGISTRY[forecaster.name] = forecaster
    return forecaster


@cache
def _discover() -> None:
    import headgate.forecast as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def forecaster_names() -> list[str]:
    """Return the names of all registered forecasters, sorted."""
    _discover()
    return sorted(_REGISTRY)


def brought_forecasters() -> dict[str, str]:
    """Return the forecasters from entry points of other packages, with package and version, without importing any."""
    _discover()
    own = {name for name, kind in _REGISTRY.items() if kind.__module__.startswith("headgate.")}
    return {name: package_of(entry) for name, entry in sorted(plugins(ENTRY_POINTS).items()) if name not in own}


def forecaster_class(name: str) -> type[AnyForecaster]:
    """Return a forecaster by name; those of other packages are imported only when requested."""
    _discover()
    if name not in _REGISTRY and name in plugins(ENTRY_POINTS):
        register(load_plugin("forecaster", plugins(ENTRY_POINTS)[name], ForecasterBase))
    if name not in _REGISTRY:
        raise UnknownNameError("forecaster", name, {*_REGISTRY, *plugins(ENTRY_POINTS)})
    return _REGISTRY[name]


def make_forecaster(name: str, settings: Mapping[str, object] | None = None) -> AnyForecaster:
    """Make a forecaster by name, with settings as plain values or as text after the name.

    >>> forecaster = make_forecaster("linear-trend", {"window": 20})
    >>> for value in range(20):
    ...     forecaster.observe(10.0 * value)
    >>> [round(float(value)) for value in forecaster.forecast(3).mean]
    [200, 210, 220]
    >>> make_forecaster("linear-trend:window=8").settings.window
    8
    """
    name, colon, text = name.partition(":")
    kind = forecaster_class(name)
    written: dict[str, str] = {}
    if colon:
        example = "linear-trend:window=20"
        written = key_texts("forecaster", f"{name}:{text}", name, kind.Settings.model_fields, example, text)
    return kind(make_settings(kind.Settings, name, {**written, **(settings or {})}))


_LONGEST_GAP_STEPS = 10_000
"""Longer gaps are not filled: values before them say nothing about the present."""


class EvenGrid:
    """Turns readings at any times into an evenly spaced series.

    Step k is the mean of the readings after ``(k - 1) · step_s`` and until ``k · step_s``. A reading describes the time
    before it, so one taken exactly at the end of a step completes it. Steps without readings are interpolated.

    >>> grid = EvenGrid(step_s=10)
    >>> grid.add(10, 100.0), grid.add(14, 110.0), grid.add(20, 130.0), grid.add(41, 180.0), grid.add(50, 200.0)
    ([100.0], [], [120.0], [], [143.33333333333334, 166.66666666666666, 190.0])
    """

    def __init__(self, step_s: float) -> None:
        if not step_s > 0:
            raise InputError(f"step {step_s} s is not allowed; it must be above 0.")
        self.step_s = step_s
        self._open: int | None = None
        self._sum = 0.0
        self._count = 0
        self._completed: int | None = None
        self._last = 0.0

    @property
    def completed(self) -> int | None:
        """The number of the newest completed step: it ended at ``completed · step_s``."""
        return self._completed

    def add(self, at_s: Instant, value: float) -> list[float]:
        """Add a reading, newer than all before, and return the values of the steps it completes."""
        step = math.ceil(round(at_s / self.step_s, 9))
        done = self._close() if self._open is not None and step > self._open else []
        if self._completed is None or step > self._completed:
            self._open = step
            self._sum += value
            self._count += 1
            if at_s >= step * self.step_s - 1e-9 * self.step_s:
                done += self._close()
        return done

    def _close(self) -> list[float]:
        assert self._open is not None
        step, value = self._open, self._sum / self._count
        self._open, self._sum, self._count = None, 0.0, 0
        done = []
        if self._completed is not None:
            gap = step - self._completed
            if gap <= _LONGEST_GAP_STEPS:
                rise = (value - self._last) / gap
                done = [self._last + rise * position for position in range(1, gap)]
        self._completed, self._last = step, value
        return [*done, value]

    def snapshot(self) -> JSON:
        return [self._open, self._sum, self._count, self._completed, self._last]

    def restore(self, state: JSON) -> None:
        self._open, self._sum, self._count, self._completed, self._last = state
