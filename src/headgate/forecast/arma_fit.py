"""Fitting ARMA(p, q) with a constant by maximum likelihood, and choosing p and q by AIC (imai §III-D, §IV-C)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.forecast.arma_descent import descend
from headgate.forecast.arma_likelihood import deviance, filtered, predicted, to_coefficients
from headgate.forecast.contract import FloatArray

ORDERS = tuple((p, q) for p in range(4) for q in range(4) if (p, q) != (0, 0))
"""Every order the document tries."""

_EDGE = 0.98
"""Starting values are kept inside this partial autocorrelation: beyond, the likelihood is flat."""
_TOLERANCE = 1e-8
"""Relative gain per round below which a fit has converged; of 100 values, about 10⁻⁷ of log-likelihood."""
_LONG_ORDER = 8
"""Order of the autoregression that gives the first estimate of the shocks."""


@dataclass(frozen=True, slots=True)
class ArmaModel:
    """A fitted model: x_t − μ = Σ φ_i (x_{t−i} − μ) + ε_t + Σ θ_j ε_{t−j}.

    >>> model = ArmaModel(mean=10.0, phi=(0.5,), theta=(), variance=4.0, log_likelihood=0.0)
    >>> means, variances = model.forecast(np.array([10.0, 12.0, 18.0]), 3)
    >>> [float(mean) for mean in means], [float(variance) for variance in variances]
    ([14.0, 12.0, 11.0], [4.0, 5.0, 5.25])
    """

    mean: float
    phi: tuple[float, ...]
    theta: tuple[float, ...]
    variance: float
    """Of the innovations ε: Σε̂²/n, which eq. 11 does not give as printed."""
    log_likelihood: float

    @property
    def aic(self) -> float:
        """Twice the number of parameters, mean and variance among them, less twice the log-likelihood."""
        return 2 * (len(self.phi) + len(self.theta) + 2) - 2 * self.log_likelihood

    def forecast(self, values: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each of the steps that follow ``values``."""
        phi, theta = np.array(self.phi), np.array(self.theta)
        _, _, _, state, state_one, covariance = filtered(values, phi, theta)
        means, variances = predicted(phi, theta, state - self.mean * state_one, covariance, steps)
        return self.mean + means, self.variance * variances

    def to_json(self) -> JSON:
        return list(astuple(self))

    @classmethod
    def from_json(cls, state: JSON) -> ArmaModel:
        mean, phi, theta, variance, log_likelihood = state
        return cls(
            float(mean),
            tuple(float(value) for value in phi),
            tuple(float(value) for value in theta),
            float(variance),
            float(log_likelihood),
        )


def fit_arma(values: FloatArray, order: tuple[int, int]) -> ArmaModel:
    """The most likely model of one order; stationary and invertible, and a function of its arguments alone."""
    p, q = order
    if len(values) <= p + q + 2:
        raise InputError(f"ARMA({p}, {q}) cannot be fitted to {len(values)} values; more than {p + q + 2} are needed.")
    centre, scale = float(np.mean(values)), float(np.std(values))
    # What is constant but for rounding has no dynamics to fit.
    if scale <= 1e-12 * max(1.0, abs(centre)):
        return ArmaModel(centre, (0.0,) * p, (0.0,) * q, 0.0, float("inf"))
    standard = (values - centre) / scale
    starts = [np.zeros(p + q), *_starts(standard, p, q)]
    start = min(starts, key=lambda free: deviance(free, p, standard))
    found = descend(start, p, standard, _TOLERANCE)
    phi, theta = to_coefficients(found[:p]), -to_coefficients(found[p:])
    mean, variance, log_likelihood, *_ = filtered(standard, phi, theta)
    return ArmaModel(
        centre + scale * mean,
        tuple(float(value) for value in phi),
        tuple(float(value) for value in theta),
        scale * scale * variance,
        log_likelihood - len(values) * float(np.log(scale)),
    )


def select_order(values: FloatArray, orders: Iterable[tuple[int, int]] = ORDERS) -> tuple[int, int]:
    """The order whose fit has the lowest AIC."""
    return min(orders, key=lambda order: fit_arma(values, order).aic)


def _starts(values: FloatArray, p: int, q: int) -> list[FloatArray]:
    """First guesses by two regressions (Hannan and Rissanen): a long autoregression, then one on its shocks too."""
    lags = min(_LONG_ORDER, len(values) // 4)
    history = _lagged(values, lags)
    shocks = np.zeros_like(values)
    shocks[lags:] = values[lags:] - history @ np.linalg.lstsq(history, values[lags:], rcond=None)[0]
    first = lags + q
    columns = np.column_stack(
        [values[first - lag : len(values) - lag] for lag in range(1, p + 1)]
        + [shocks[first - lag : len(values) - lag] for lag in range(1, q + 1)]
    )
    if len(columns) <= p + q:
        return []
    coefficients: FloatArray = np.asarray(np.linalg.lstsq(columns, values[first:], rcond=None)[0], dtype=np.float64)
    return [np.concatenate((_to_free(coefficients[:p]), _to_free(-coefficients[p:])))]


def _lagged(values: FloatArray, lags: int) -> FloatArray:
    return np.column_stack([values[lags - lag : len(values) - lag] for lag in range(1, lags + 1)])


def _to_free(coefficients: FloatArray) -> FloatArray:
    """The inverse of :func:`to_coefficients`, with partial autocorrelations drawn inside where they are not allowed."""
    current = [float(value) for value in coefficients]
    partials: list[float] = []
    while current:
        partial = min(_EDGE, max(-_EDGE, current.pop()))
        partials.append(partial)
        rest = len(current)
        current = [(current[i] + partial * current[rest - 1 - i]) / (1 - partial * partial) for i in range(rest)]
    return np.array([partial / np.sqrt(1 - partial * partial) for partial in reversed(partials)])
