"""What each forecaster says, where it can be worked out by hand; the contract is checked in tests/contracts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.forecast import Forecast, make_forecaster
from headgate.forecast.base import EvenGrid


def test_quantiles_of_a_normal_forecast_lie_on_the_normal_distribution() -> None:
    forecast = Forecast.normal(np.array([100.0]), np.array([10.0]))
    for level, expected in ((0.5, 100.0), (0.95, 116.449), (0.97, 118.808), (0.999, 130.902), (0.001, 69.098)):
        assert forecast.quantile(level)[0] == pytest.approx(expected, abs=0.01)


def test_an_interval_leaves_equal_tails() -> None:
    low, high = Forecast.normal(np.array([0.0]), np.array([1.0])).interval(0.9)
    assert (low[0], high[0]) == pytest.approx((-1.645, 1.645), abs=0.001)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Forecast.normal(np.zeros(1), np.ones(1)).quantile(level)


def test_an_unknown_forecaster_is_answered_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'arma'"):
        make_forecaster("arna")


def test_settings_may_stand_behind_the_name() -> None:
    forecaster = make_forecaster("linear-trend:window=3")
    for value in (100.0, 1.0, 2.0, 4.0):
        forecaster.observe(value)
    forecast = forecaster.forecast(1)
    assert forecast is not None
    assert forecast.mean[0] == pytest.approx(16 / 3)
    assert make_forecaster("conformal:forecaster=arma", {"horizon": 3}).settings.horizon == 3


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("linear-trend:", "linear-trend setting window '' is not allowed"),
        ("fourier:", "has '', which is not key=value; write for example linear-trend:window=20"),
        ("linear-trend:windows=3", "did you mean 'window'"),
        ("linear-trend:window=2", "linear-trend setting window '2' is not allowed"),
        ("linear-trend:window=3,window=4", "gives window twice"),
        ("line:window=3", "unknown forecaster 'line'"),
    ],
)
def test_settings_behind_a_name_that_are_wrong_are_reported_in_a_sentence(spec: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_forecaster(spec)


def test_exponential_smoothing_without_trend_has_the_variance_of_its_weights() -> None:
    """σ²·(1 + (h − 1)·α²), for α = 0.5: 1, 1.25, 1.5 times the variance of one step."""
    forecaster = make_forecaster("exponential-smoothing", {"trend_gain": 0, "level_gain": 0.5})
    for value in np.random.default_rng(0).normal(100, 3, 50):
        forecaster.observe(value)
    forecast = forecaster.forecast(3)
    assert forecast is not None
    assert forecast.deviation**2 / forecast.deviation[0] ** 2 == pytest.approx([1.0, 1.25, 1.5])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("seasonal-naive", {"period": 24}),
        ("exponential-smoothing", {"period": 24, "season_gain": 0.5, "level_gain": 0.1}),
        ("fourier", {"period": 24, "waves": 2}),
    ],
)
def test_a_seasonal_forecaster_learns_a_cycle(name: str, settings: dict[str, object]) -> None:
    forecaster = make_forecaster(name, settings)
    for step in range(24 * 40):
        forecaster.observe(100 + 50 * math.sin(2 * math.pi * step / 24))
    forecast = forecaster.forecast(24)
    assert forecast is not None
    expected = [100 + 50 * math.sin(2 * math.pi * step / 24) for step in range(24)]
    assert forecast.mean == pytest.approx(expected, abs=2.0)


def test_the_ensemble_follows_its_best_member() -> None:
    """On a steep line a smoothed level lags behind, and the line through the last values does not."""
    members = ("linear-trend", "exponential-smoothing")
    ensemble = make_forecaster("ensemble", {"members": members})
    alone = [make_forecaster(name) for name in members]
    random = np.random.default_rng(1)
    for step in range(300):
        value = 20.0 * step + random.normal(0, 1)
        for item in (ensemble, *alone):
            item.observe(value)
    reported, line = ensemble.forecast(5), alone[0].forecast(5)
    assert reported is not None
    assert line is not None
    assert reported.mean == pytest.approx(line.mean, rel=0.001)


def test_readings_that_come_at_any_time_become_an_even_series() -> None:
    grid = EvenGrid(step_s=60)
    assert grid.add(60, 10.0) == [10.0]
    assert grid.add(90, 20.0) == []
    assert grid.add(119.9, 40.0) == []
    assert grid.add(121, 50.0) == [30.0]
    assert grid.add(300, 110.0) == [50.0, 80.0, 110.0]
    assert grid.completed == 5


def test_a_restored_grid_goes_on_where_it_was() -> None:
    grid, other = EvenGrid(10), EvenGrid(10)
    grid.add(3, 1.0)
    other.restore(grid.snapshot())
    assert grid.add(20, 5.0) == other.add(20, 5.0) == [1.0, 5.0]
