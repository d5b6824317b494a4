"""The exact likelihood and the forecasts of an ARMA(p, q) model with a mean, by its state-space form.

With x = y − μ the model is x_t = φ_1 x_{t−1} + … + φ_p x_{t−p} + ε_t + θ_1 ε_{t−1} + … + θ_q ε_{t−q}; its state has r =
max(p, q + 1) elements (Harvey's form). These functions take and give plain arrays so that they can be compiled.
"""

from __future__ import annotations

import numpy as np

from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray

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
