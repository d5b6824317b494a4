"""The search for the most likely ARMA parameters: BFGS with a backtracking line search, compiled as a whole.

The optimisers of libraries spend ten times longer here than the likelihood itself takes, most of it between their own
threads; see docs/decisions.
"""

from __future__ import annotations

import numpy as np

from headgate.forecast.arma_likelihood import deviance, deviance_and_slope
from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray

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
