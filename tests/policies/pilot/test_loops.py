"""Loops that are compiled where that can be: plain Python gives the same numbers, and so does numpy where it can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headgate.forecast.base import FloatArray
from headgate.policies.pilot import batch_time, load_scenarios
from headgate.policies.pilot.calibration import quantiles
from headgate.policies.pilot.load import RecentValues


def plain(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    """The function as it is written, whether or not it was compiled."""
    found: Callable[..., FloatArray] = getattr(function, "py_func", function)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_fits_are_those_of_plain_python(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 9
    sums = np.zeros((batch_time.SUMS, count))
    base, power = random.uniform(0.1, 1, count), random.uniform(1, 8, count)
    for _ in range(int(random.integers(1, 12))):
        records = float(random.uniform(1, 1000))
        took_s = np.full(count, 0.3 + 0.01 * records * float(random.uniform(0.5, 2)))
        given = (base, records / power, took_s, float(random.uniform(0.1, 10)), 0.998)
        assert np.array_equal(batch_time.sums_with_batch(sums, *given), plain(batch_time.sums_with_batch)(sums, *given))
        sums = batch_time.sums_with_batch(sums, *given)
    found = batch_time.solve_fits(sums)
    assert np.array_equal(found, plain(batch_time.solve_fits)(sums))
    assert (found >= 0).all()
    judging = (random.uniform(0, 3, count), found, base, power, 500.0, 4.0, 0.998)
    assert np.array_equal(batch_time.updated_fit_errors(*judging), plain(batch_time.updated_fit_errors)(*judging))


def test_a_fit_finds_what_batches_were_made_of() -> None:
    sums, unit, many = np.zeros((batch_time.SUMS, 1)), np.ones(1), np.ones(1)
    for records in (100.0, 200.0, 300.0, 150.0):
        sums = batch_time.sums_with_batch(sums, unit, records * many, np.array([0.5 + 0.01 * records]), 1.0, 1.0)
    assert batch_time.solve_fits(sums)[:, 0] == pytest.approx([0.5, 0.01])


@pytest.mark.parametrize("length", [1, 2, 3, 7, 40, 200])
def test_experts_are_those_of_plain_python_and_numpy(length: int) -> None:
    history = np.random.default_rng(length).uniform(0, 500, length)
    rows = load_scenarios.base_forecasts(history)
    for bins, row in zip(load_scenarios.MEANS_BINS, rows, strict=False):
        assert row == pytest.approx(np.full(load_scenarios.HORIZON_BINS, history[-bins:].mean()))
    for bins, row in zip(load_scenarios.TRENDS_BINS, rows[len(load_scenarios.MEANS_BINS) :], strict=False):
        recent = history[-bins:]
        if len(recent) < 3:
            assert row == pytest.approx(rows[0])
            continue
        line = np.polynomial.Polynomial.fit(np.arange(len(recent)), recent, 1)
        ahead = np.minimum(np.arange(1, load_scenarios.HORIZON_BINS + 1), len(recent))
        assert row == pytest.approx(np.maximum(0.0, line(len(recent) - 1 + ahead)), abs=1e-6)
    assert np.isnan(rows[-1]).all()
    errors = np.array([3.0, 1.0, np.nan, 2.0, 5.0, 1.5, 9.0, np.nan])
    reason = load_scenarios.combined_forecast(rows, errors)
    known = np.where(np.isnan(errors), 9.0, errors)[:-1]
    weights = (1.0 / known) ** 4
    assert reason == pytest.approx(weights @ rows[:-1] / weights.sum())
    assert (reason >= 0).all()


@pytest.mark.parametrize("length", [3, 20, 200])
def test_a_season_and_errors_are_those_of_plain_python_and_numpy(length: int) -> None:
    random = np.random.default_rng(length)
    minutes, season = random.uniform(0, 500, length), int(random.integers(1, length))
    given = (minutes, season, 6, 40.0)
    reason = load_scenarios.seasonal_forecast(*given)
    assert np.array_equal(reason, plain(load_scenarios.seasonal_forecast)(*given))
    now = length - season
    then = minutes[max(0, now - load_scenarios.LEVEL_MINUTES) : now].mean() / 6
    ahead = np.minimum(now + np.arange(load_scenarios.HORIZON_BINS) // 6, length - 1)
    assert reason == pytest.approx(minutes[ahead] / 6 * (40.0 / then))
    errors, reported = random.uniform(0, 9, load_scenarios.FORECASTS), random.uniform(0, 9, load_scenarios.FORECASTS)
    errors[[0, 1]], reported[[1, 2]] = np.nan, np.nan
    found = load_scenarios.updated_forecast_errors(errors, reported, 5.0, 0.9)
    assert np.array_equal(
        found, plain(load_scenarios.updated_forecast_errors)(errors, reported, 5.0, 0.9), equal_nan=True
    )
    assert found[[0, 2]] == pytest.approx([abs(reported[0] - 5), errors[2]])
    assert np.isnan(found[1])
    assert found[3:] == pytest.approx(0.9 * errors[3:] + 0.1 * np.abs(reported[3:] - 5))


@pytest.mark.parametrize("length", [1, 2, 9, 60])
def test_quantiles_are_those_of_plain_python_whichever_of_equal_values_comes_first(length: int) -> None:
    random = np.random.default_rng(length)
    values, weights = random.integers(0, 8, length).astype(np.float64), random.uniform(0.1, 1, length)
    found = quantiles(values, weights)
    assert found == getattr(quantiles, "py_func", quantiles)(values, weights)
    for value, share in zip(found, (0.05, 0.5, 0.95), strict=True):
        assert weights[values <= value].sum() >= share * weights.sum() * (1 - 1e-12)
        assert weights[values < value].sum() < share * weights.sum()


@pytest.mark.parametrize("count", [0, 3, 4, 7, 8, 9, 30])
def test_the_newest_numbers_lie_side_by_side_however_many_arrived(count: int) -> None:
    newest = RecentValues(4)
    for number in range(count):
        newest.append(float(number))
        assert newest.values.tolist() == [float(unit) for unit in range(max(0, number - 3), number + 1)]
        assert newest[-1] == number
    newest.clear()
    assert len(newest) == 0
    assert RecentValues(4, range(count)).values.tolist() == list(range(max(0, count - 4), count))
