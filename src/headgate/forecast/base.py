"""What all forecasters share, and the registry that finds them by name.

A forecaster is one file in this package: a class that extends :class:`ForecasterBase`, carries ``name``, ``summary``
and a ``Settings`` class, and is decorated with :func:`register`. The contract checks then run on it by themselves.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from headgate.core.errors import InputError, StateError, UnknownNameError
from headgate.core.plugins import load_plugin, package_of, plugins
from headgate.core.types import JSON
from headgate.core.units import key_texts
from headgate.forecast.contract import Forecast
from headgate.policies.frame.settings import Settings, make_settings

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
    """Every registered forecaster, sorted."""
    _discover()
    return sorted(_REGISTRY)


def brought_forecasters() -> dict[str, str]:
    """The forecasters that other packages bring by entry points, with the package and its version; none is imported."""
    _discover()
    own = {name for name, kind in _REGISTRY.items() if kind.__module__.startswith("headgate.")}
    return {name: package_of(entry) for name, entry in sorted(plugins(ENTRY_POINTS).items()) if name not in own}


def forecaster_class(name: str) -> type[AnyForecaster]:
    """By name; one that another package brings by an entry point is imported when it is asked for."""
    _discover()
    if name not in _REGISTRY and name in plugins(ENTRY_POINTS):
        register(load_plugin("forecaster", plugins(ENTRY_POINTS)[name], ForecasterBase))
    if name not in _REGISTRY:
        raise UnknownNameError("forecaster", name, {*_REGISTRY, *plugins(ENTRY_POINTS)})
    return _REGISTRY[name]


def make_forecaster(name: str, settings: Mapping[str, object] | None = None) -> AnyForecaster:
    """A forecaster by name, with settings as plain values, or as text behind the name as workloads have it.

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
