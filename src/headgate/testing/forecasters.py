"""The contract of forecasters as checks, for the forecasters of this package and for yours.

>>> check_forecaster("linear-trend")

Each check takes a factory and raises ``ContractViolation`` where the contract is broken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from headgate.core.errors import InputError, StateError
from headgate.core.types import JSON
from headgate.forecast import Forecast, Forecaster, make_forecaster
from headgate.forecast.base import LEVELS
from headgate.testing.contract import ContractViolation, ensure

ForecasterFactory: TypeAlias = Callable[[], Forecaster]
"""Makes a fresh forecaster."""

STEPS = 5
LENGTH = 180


def _series() -> dict[str, list[float]]:
    """Loads of all kinds: a noisy cycle, a jump, a trend, nothing but one value, nothing at all, and rare bursts."""
    random = np.random.default_rng(7)
    steps = np.arange(LENGTH)
    cycle = 100 + 40 * np.sin(2 * np.pi * steps / 60)
    return {
        "a noisy cycle": (cycle + random.normal(0, 5, LENGTH)).tolist(),
        "a jump": (np.where(steps < LENGTH / 2, 50.0, 500.0) + random.normal(0, 1, LENGTH)).tolist(),
        "a trend": (3.0 * steps).tolist(),
        "a constant": [42.0] * LENGTH,
        "nothing": [0.0] * LENGTH,
        "bursts": np.where(random.random(LENGTH) < 0.05, 1e6, 1.0).tolist(),
        "tiny values": (1e-9 * cycle).tolist(),
    }


SERIES = _series()


def check_forecaster(forecaster: str | ForecasterFactory) -> None:
    """Run every check on a forecaster, given by its registered name or by a factory."""
    factory = named_forecaster(forecaster) if isinstance(forecaster, str) else forecaster
    for check in FORECASTER_CHECKS:
        check(factory)


def named_forecaster(name: str) -> ForecasterFactory:
    """The factory of a registered forecaster; a season, where it has one, is made short enough for the checks."""
    settings = {"seasonal-naive": {"period": 60}, "fourier": {"period": 60}}.get(name)
    return lambda: make_forecaster(name, settings)


def says_nothing_before_it_knows(factory: ForecasterFactory) -> None:
    """Without a value there is no forecast; after enough of them there is one for every kind of load."""
    ensure(factory().forecast(STEPS) is None, "it made a forecast although it had not seen a single value")
    for name, values in SERIES.items():
        ensure(
            _fed(factory, values).forecast(STEPS) is not None, f"after {len(values)} values of {name} it says nothing"
        )


def gives_a_distribution_per_step(factory: ForecasterFactory) -> None:
    """Mean, deviation and quantiles are finite, there is one of each per step, and quantiles do not cross."""
    for name, values in SERIES.items():
        for steps in (1, STEPS, 50):
            forecast = _known(_fed(factory, values), steps)
            what = f"its forecast of {steps} steps of {name}"
            ensure(len(forecast.mean) == len(forecast.deviation) == steps, f"{what} has {len(forecast.mean)} steps")
            ensure(forecast.quantiles.shape == (len(LEVELS), steps), f"{what} has quantiles {forecast.quantiles.shape}")
            numbers = (forecast.mean, forecast.deviation, forecast.quantiles)
            ensure(all(bool(np.isfinite(part).all()) for part in numbers), f"{what} is not finite")
            ensure(bool((forecast.deviation >= 0).all()), f"{what} has a negative deviation")
            ensure(bool((np.diff(forecast.quantiles, axis=0) >= 0).all()), f"the quantiles of {what} cross")


def asking_changes_nothing(factory: ForecasterFactory) -> None:
    """Repeated queries return the same forecast, and a longer forecast begins with the shorter one."""
    for name, values in SERIES.items():
        queried, silent = factory(), factory()
        for value in values:
            queried.observe(value)
            queried.forecast(2)
            silent.observe(value)
        _ensure_same(_known(queried, STEPS), _known(silent, STEPS), f"it was queried at every step of {name}")
        longer = _known(queried, 2 * STEPS)
        ensure(
            np.allclose(longer.mean[:STEPS], _known(queried, STEPS).mean),
            f"a longer forecast of {name} begins otherwise",
        )


def is_deterministic(factory: ForecasterFactory) -> None:
    """Two forecasters that saw the same say the same."""
    for name, values in SERIES.items():
        _ensure_same(_known(_fed(factory, values), STEPS), _known(_fed(factory, values), STEPS), f"{name} came again")


def continues_from_restored_state(factory: ForecasterFactory) -> None:
    """Its state is plain JSON; restored at any point, it goes on as if nothing had happened."""
    for name, values in SERIES.items():
        forecaster = factory()
        others: list[Forecaster] = []
        for index, value in enumerate(values):
            for member in (forecaster, *others):
                member.observe(value)
            if index % 67 == 0:
                others.append(factory())
                others[-1].restore(json.loads(_as_json(forecaster.snapshot())))
        for other in others:
            _ensure_same(_known(other, STEPS), _known(forecaster, STEPS), f"it was restored within {name}")


def refuses_what_it_cannot_use(factory: ForecasterFactory) -> None:
    """Values that are not finite, forecasts of no step, and state that is not its own."""
    forecaster = factory()
    for value in (math.nan, math.inf):
        _ensure_raises(InputError, lambda value=value: forecaster.observe(value), f"the value {value}")  # type: ignore[misc]
    _ensure_raises(InputError, lambda: forecaster.forecast(0), "a forecast of 0 steps")
    own = forecaster.snapshot()
    for what, state in (("nobody", {}), ("another version", {**own, "version": "another"})):
        _ensure_raises(StateError, lambda state=state: forecaster.restore(state), f"the state of {what}")  # type: ignore[misc]


FORECASTER_CHECKS: tuple[Callable[[ForecasterFactory], None], ...] = (
    says_nothing_before_it_knows,
    gives_a_distribution_per_step,
    asking_changes_nothing,
    is_deterministic,
    continues_from_restored_state,
    refuses_what_it_cannot_use,
)
"""Every check, in the order in which :func:`check_forecaster` runs them."""


def _fed(factory: ForecasterFactory, values: list[float]) -> Forecaster:
    forecaster = factory()
    for value in values:
        forecaster.observe(value)
    return forecaster


def _known(forecaster: Forecaster, steps: int) -> Forecast:
    forecast = forecaster.forecast(steps)
    if forecast is None:
        raise ContractViolation("it says nothing although it has seen enough")
    return forecast


def _ensure_same(left: Forecast, right: Forecast, when: str) -> None:
    same = all(
        np.array_equal(first, second)
        for first, second in (
            (left.mean, right.mean),
            (left.deviation, right.deviation),
            (left.quantiles, right.quantiles),
        )
    )
    ensure(same, f"when {when}, it said {left.mean} instead of {right.mean}")


def _ensure_raises(error: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except error:
        return
    raise ContractViolation(f"it took {what}; it must raise {error.__name__}")


def _as_json(state: Mapping[str, JSON]) -> str:
    try:
        return json.dumps(dict(state), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"its state cannot be written as JSON: {error}") from error
