"""ARMA models against a reference library (statsmodels) on fixed data, and against sums worked by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.forecast import arma_fit, make_forecaster
from headgate.forecast.arma_fit import ORDERS, ArmaModel, fit_arma, select_order
from headgate.forecast.base import FloatArray

warnings.filterwarnings("ignore", module="statsmodels")
arima = pytest.importorskip("statsmodels.tsa.arima.model")


def series(phi: tuple[float, ...], theta: tuple[float, ...], count: int = 400, seed: int = 3) -> FloatArray:
    """A sample of a known process with mean 50 and shocks of deviation 2."""
    shocks = np.random.default_rng(seed).normal(0, 2, count + 200)
    values = np.zeros(count + 200)
    for step in range(3, count + 200):
        values[step] = shocks[step]
        values[step] += sum(weight * values[step - 1 - lag] for lag, weight in enumerate(phi))
        values[step] += sum(weight * shocks[step - 1 - lag] for lag, weight in enumerate(theta))
    return 50 + values[200:]


CASES = [((0.7,), ()), ((), (0.6,)), ((0.8,), (0.4,)), ((0.5, 0.3), (0.5,)), ((0.9,), (0.3, 0.2))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("phi", "theta"), CASES)
def test_parameters_agree_with_the_reference(phi: tuple[float, ...], theta: tuple[float, ...]) -> None:
    values = series(phi, theta)
    ours = fit_arma(values, (len(phi), len(theta)))
    reference = arima.ARIMA(values, order=(len(phi), 0, len(theta)), trend="c").fit()
    assert np.array([*ours.phi, *ours.theta]) == pytest.approx(reference.params[1:-1], abs=0.005)
    assert ours.mean == pytest.approx(reference.params[0], abs=0.02)
    assert ours.variance == pytest.approx(reference.params[-1], rel=0.001)
    assert ours.log_likelihood >= reference.llf - 1e-3
    assert ours.aic == pytest.approx(reference.aic, abs=0.02)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", [(1, 0), (0, 2), (1, 2), (3, 3)])
@pytest.mark.parametrize("count", [30, 100])
def test_forecasts_and_their_variances_are_those_of_the_reference(order: tuple[int, int], count: int) -> None:
    """At the same parameters, to ten digits."""
    values = series((0.8,), (0.4,), count)
    ours = fit_arma(values, order)
    parameters = [ours.mean, *ours.phi, *ours.theta, ours.variance]
    reference = arima.ARIMA(values, order=(order[0], 0, order[1]), trend="c").smooth(parameters)
    means, variances = ours.forecast(values, 11)
    expected = reference.get_forecast(11)
    assert means == pytest.approx(expected.predicted_mean, rel=1e-10)
    assert variances == pytest.approx(expected.var_pred_mean, rel=1e-10)
    assert ours.log_likelihood == pytest.approx(reference.llf, rel=1e-10)


def test_the_variance_of_a_forecast_is_the_sum_of_squared_psi_weights() -> None:
    """Eq. 13 with ψ_0 = 1 and +θ: for φ = 0.5, θ = 0.4, ψ = 1, 0.9, 0.45, 0.225."""
    model = ArmaModel(mean=0.0, phi=(0.5,), theta=(0.4,), variance=4.0, log_likelihood=0.0)
    _, variances = model.forecast(np.random.default_rng(0).normal(size=200), 4)
    assert variances == pytest.approx([4.0, 4 * 1.81, 4 * 2.0125, 4 * 2.063125], rel=1e-9)


def test_future_shocks_are_zero_in_a_forecast() -> None:
    """Eq. 10: of an MA(1) only the first step ahead is known."""
    model = ArmaModel(mean=10.0, phi=(), theta=(0.5,), variance=1.0, log_likelihood=0.0)
    means, _ = model.forecast(np.array([10.0, 10.0, 12.0, 9.0, 13.0]), 3)
    assert means[0] != pytest.approx(10.0)
    assert means[1:] == pytest.approx([10.0, 10.0])


def test_the_order_is_the_one_with_the_lowest_aic() -> None:
    values = series((0.8,), (0.4,), 100)
    best = select_order(values)
    assert fit_arma(values, best).aic == min(fit_arma(values, order).aic for order in ORDERS)
    assert len(ORDERS) == 15


def test_a_fit_is_stationary_and_invertible_whatever_the_data() -> None:
    values = np.cumsum(np.random.default_rng(5).normal(size=100)) + np.arange(100.0)
    model = fit_arma(values, (3, 3))
    for coefficients, sign in ((model.phi, -1), (model.theta, 1)):
        roots = np.roots([*(sign * np.array(coefficients[::-1])), 1.0])
        assert (np.abs(roots) >= 1 - 1e-6).all()


def test_a_constant_series_is_forecast_as_itself() -> None:
    means, variances = fit_arma(np.full(100, 7.0), (1, 2)).forecast(np.full(100, 7.0), 3)
    assert means == pytest.approx([7.0] * 3)
    assert variances == pytest.approx([0.0] * 3)


def test_a_fit_does_not_depend_on_the_unit() -> None:
    values = series((0.8,), (0.4,), 100)
    small, large = fit_arma(values, (1, 2)), fit_arma(1e6 * values, (1, 2))
    assert small.phi == pytest.approx(large.phi, rel=1e-6)
    assert 1e6 * small.mean == pytest.approx(large.mean, rel=1e-9)


def test_too_few_values_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be fitted to 5 values; more than 5"):
        fit_arma(np.arange(5.0), (1, 2))


def test_the_order_is_held_and_the_parameters_are_fitted_again() -> None:
    values = series((0.8,), (0.4,), 150)
    forecaster = make_forecaster("arma")
    for value in values:
        forecaster.observe(value)
    forecast = forecaster.forecast(5)
    assert forecast is not None
    newest = values[-100:]
    means, variances = fit_arma(newest, select_order(values[:100])).forecast(newest, 5)
    assert forecast.mean == pytest.approx(means)
    assert forecast.deviation == pytest.approx(np.sqrt(variances))


def test_plain_python_gives_what_compiled_code_gives() -> None:
    plain = getattr(arma_fit.to_coefficients, "py_func", arma_fit.to_coefficients)
    free = np.array([0.5, -1.2, 3.0])
    assert plain(free) == pytest.approx(arma_fit.to_coefficients(free), rel=1e-15)
