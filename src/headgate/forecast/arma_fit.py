"""Fitting ARMA(p, q) with a constant by maximum likelihood, and choosing p and q by AIC (imai §III-D, §IV-C)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import compiled

_MOST_ROUNDS = 60
_ENOUGH_DECREASE = 1e-4
_LARGEST_MOVE = 2.0
"""Per round and parameter; partial autocorrelations near ±1 need large parameters, but not in one leap."""


@compiled
def descend(start: FloatArray, ar_order: int, values: FloatArray, tolerance: float) -> FloatArray:
    """Parameters of (locally) least deviance, from a first guess.

    Ends when a round makes the deviance smaller by less than ``tolerance`` of itself, or nothing makes it smaller.
    """
    size = len(start)
    place = start.copy()
    inverse = np.eye(size)
    level, slope = deviance_and_slope(place, ar_order, values)
    fresh = True
    for _ in range(_MOST_ROUNDS):
        direction = -_times(inverse, slope)
        descent = _dot(direction, slope)
        if descent >= 0.0:
            inverse = np.eye(size)
            fresh = True
            direction = -slope
            descent = -_dot(slope, slope)
        length = min(1.0, _LARGEST_MOVE / max(np.max(np.abs(direction)), 1e-300))
        reached = deviance(place + length * direction, ar_order, values)
        while not reached <= level + _ENOUGH_DECREASE * length * descent and length > 1e-10:
            length *= 0.4
            reached = deviance(place + length * direction, ar_order, values)
        if not reached < level:
            if fresh:
                break
            inverse = np.eye(size)
            fresh = True
            continue
        move = length * direction
        gained = level - reached
        place = place + move
        level, next_slope = deviance_and_slope(place, ar_order, values)
        change = next_slope - slope
        slope = next_slope
        _update(inverse, move, change, fresh)
        fresh = False
        if gained <= tolerance * max(1.0, abs(level)):
            break
    return place


@compiled
def _update(inverse: FloatArray, move: FloatArray, change: FloatArray, fresh: bool) -> None:
    """The BFGS update of the inverse curvature, left out where the curvature seen is not positive."""
    size = len(move)
    curvature = _dot(move, change)
    if curvature <= 1e-12:
        return
    if fresh:
        inverse[:] = np.eye(size) * (curvature / _dot(change, change))
    bent = _times(inverse, change)
    factor = (curvature + _dot(change, bent)) / (curvature * curvature)
    for row in range(size):
        for column in range(size):
            inverse[row, column] += (
                factor * move[row] * move[column] - (bent[row] * move[column] + move[row] * bent[column]) / curvature
            )


@compiled
def _dot(left: FloatArray, right: FloatArray) -> float:
    total = 0.0
    for index in range(len(left)):
        total += left[index] * right[index]
    return total


@compiled
def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    result = np.zeros(len(vector))
    for row in range(len(vector)):
        for column in range(len(vector)):
            result[row] += matrix[row, column] * vector[column]
    return result


_CONVERGED = 1e-13
_DOUBLINGS = 40


@compiled
def to_coefficients(free: FloatArray) -> FloatArray:
    """AR coefficients of a stationary process from any real numbers, by partial autocorrelations in (−1, 1)."""
    count = len(free)
    coefficients = np.zeros(count)
    previous = np.zeros(count)
    for order in range(count):
        partial = free[order] / np.sqrt(1.0 + free[order] * free[order])
        previous[:order] = coefficients[:order]
        for lag in range(order):
            coefficients[lag] = previous[lag] - partial * previous[order - 1 - lag]
        coefficients[order] = partial
    return coefficients


@compiled
def stationary_state(phi: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Transition matrix, shock vector and stationary covariance of the state, for shocks of variance 1."""
    size = max(len(phi), len(theta) + 1)
    transition = np.zeros((size, size))
    shock = np.zeros(size)
    transition[: len(phi), 0] = phi
    for row in range(size - 1):
        transition[row, row + 1] = 1.0
    shock[0] = 1.0
    shock[1 : len(theta) + 1] = theta
    # P = Σ_k T^k R R' T'^k, twice as many terms per round.
    covariance = np.outer(shock, shock)
    power = transition.copy()
    product = np.zeros((size, size))
    added = np.zeros((size, size))
    for _ in range(_DOUBLINGS):
        _multiply(power, covariance, product)
        largest = 0.0
        for row in range(size):
            for column in range(size):
                total = 0.0
                for inner in range(size):
                    total += product[row, inner] * power[column, inner]
                added[row, column] = total
                largest = max(largest, abs(total))
        covariance += added
        if largest <= _CONVERGED * covariance[0, 0]:
            break
        _multiply(power, power, product)
        power[:] = product
    return transition, shock, covariance


@compiled
def _multiply(left: FloatArray, right: FloatArray, result: FloatArray) -> None:
    size = len(left)
    for row in range(size):
        for column in range(size):
            total = 0.0
            for inner in range(size):
                total += left[row, inner] * right[inner, column]
            result[row, column] = total


@compiled
def _move_covariance(
    covariance: FloatArray, product: FloatArray, transition: FloatArray, shock: FloatArray, gain: FloatArray
) -> float:
    """The covariance of the state one step later, in place, from T·P (``product``); gives its largest change."""
    size = len(shock)
    variance = covariance[0, 0]
    largest = 0.0
    for row in range(size):
        for column in range(size):
            total = shock[row] * shock[column] - gain[row] * gain[column] * variance
            for inner in range(size):
                total += product[row, inner] * transition[column, inner]
            largest = max(largest, abs(total - covariance[row, column]))
            covariance[row, column] = total
    return largest


@compiled
def filtered(
    values: FloatArray, phi: FloatArray, theta: FloatArray
) -> tuple[float, float, float, FloatArray, FloatArray, FloatArray]:
    """Run the Kalman filter.

    Gives the mean by generalised least squares, the innovation variance and the logarithm of the likelihood at both;
    then, for the value after the last, the state made of the values, the state that a series of ones would have made,
    and the covariance of either for shocks of variance 1. The state of a process with a mean is the first less its mean
    times the second.
    """
    transition, shock, covariance = stationary_state(phi, theta)
    size, count = len(shock), len(values)
    # The filter is linear: the values and a series of ones go through it side by side, and the mean follows from both.
    state, state_one = np.zeros(size), np.zeros(size)
    moved, moved_one = np.zeros(size), np.zeros(size)
    gain = np.zeros(size)
    product = np.zeros((size, size))
    squares, cross, squares_one, logarithms = 0.0, 0.0, 0.0, 0.0
    variance = covariance[0, 0]
    steady = False
    for index in range(count):
        error, error_one = values[index] - state[0], 1.0 - state_one[0]
        squares += error * error / variance
        cross += error * error_one / variance
        squares_one += error_one * error_one / variance
        if not steady:
            logarithms += np.log(variance)
            _multiply(transition, covariance, product)
            for row in range(size):
                gain[row] = product[row, 0] / variance
        for row in range(size):
            total, total_one = gain[row] * error, gain[row] * error_one
            if row + 1 < size:
                total += state[row + 1]
                total_one += state_one[row + 1]
            moved[row] = total + transition[row, 0] * state[0]
            moved_one[row] = total_one + transition[row, 0] * state_one[0]
        state[:] = moved
        state_one[:] = moved_one
        if not steady:
            # Once the covariance stays, so does the gain; shocks have variance 1, whose logarithm is 0.
            steady = _move_covariance(covariance, product, transition, shock, gain) < _CONVERGED
            variance = covariance[0, 0]
    mean = cross / squares_one
    shock_variance = max((squares - mean * cross) / count, 1e-300)
    likelihood = -0.5 * (count * (np.log(2.0 * np.pi * shock_variance) + 1.0) + logarithms)
    return mean, shock_variance, likelihood, state, state_one, covariance


@compiled
def deviance(free: FloatArray, ar_order: int, values: FloatArray) -> float:
    """What a fit makes small: −2/n · log-likelihood, of unconstrained parameters."""
    result = filtered(values, to_coefficients(free[:ar_order]), -to_coefficients(free[ar_order:]))
    return -2.0 * result[2] / len(values)


@compiled
def deviance_and_slope(free: FloatArray, ar_order: int, values: FloatArray) -> tuple[float, FloatArray]:
    """The deviance and its gradient by differences."""
    level = deviance(free, ar_order, values)
    slope = np.zeros(len(free))
    moved = free.copy()
    for index in range(len(free)):
        width = 1e-6 * max(1.0, abs(free[index]))
        moved[index] = free[index] + width
        slope[index] = (deviance(moved, ar_order, values) - level) / width
        moved[index] = free[index]
    return level, slope


@compiled
def predicted(
    phi: FloatArray, theta: FloatArray, state: FloatArray, covariance: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Expected deviations from the mean and their variances (for shocks of variance 1) of the next steps.

    After enough values the variance is that of eq. 13, Σ ψ_j² over j < k with ψ_0 = 1; in a short window the unknown
    shocks before it add a little.
    """
    transition, shock, _ = stationary_state(phi, theta)
    size = len(shock)
    means, variances = np.zeros(steps), np.zeros(steps)
    state, covariance = state.copy(), covariance.copy()
    product, moved = np.zeros((size, size)), np.zeros(size)
    for step in range(steps):
        means[step], variances[step] = state[0], covariance[0, 0]
        for row in range(size):
            moved[row] = transition[row, 0] * state[0] + (state[row + 1] if row + 1 < size else 0.0)
        state[:] = moved
        _multiply(transition, covariance, product)
        for row in range(size):
            for column in range(size):
                total = shock[row] * shock[column]
                for inner in range(size):
                    total += product[row, inner] * transition[column, inner]
                covariance[row, column] = total
    return means, variances


ORDERS = tuple((p, q) for p in range(4) for q in range(4) if (p, q) != (0, 0))
"""Every order the document tries."""

_EDGE = 0.98
"""Starting values stay within this partial autocorrelation: beyond it the likelihood is flat."""
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
