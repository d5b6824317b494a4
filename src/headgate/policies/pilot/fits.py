"""Weighted least-squares fits of how long batches take, many side by side: the loops of ``service.py``, for a compiler.

Each fit is of ``d = a·base + s·work`` and lives in five sums: of base², base·work, work², base·d and work·d.
"""

from __future__ import annotations

import math

import numpy as np

from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray

SUMS = 5
_NOTHING = 1e-12


@compiled
def solved(sums: FloatArray) -> FloatArray:
    """What the fits say: a, the fixed part, in the first row, and s, the seconds per record, in the second."""
    count = sums.shape[1]
    found = np.empty((2, count))
    for place in range(count):
        ones, x, xx, d, xd = sums[0, place], sums[1, place], sums[2, place], sums[3, place], sums[4, place]
        determinant = ones * xx - x * x
        slope, fixed = 0.0, 0.0
        if determinant > _NOTHING * max(_NOTHING, ones * xx):
            slope = (ones * xd - x * d) / determinant
        if ones > 0:
            fixed = (d - slope * x) / max(ones, _NOTHING)
        # Neither can be negative; what is left is then fitted alone.
        if fixed < 0:
            fixed, slope = 0.0, 0.0
            if xx > 0:
                slope = xd / max(xx, _NOTHING)
        if slope <= 0:
            fixed, slope = 0.5 * d / max(ones, _NOTHING), 0.0
            if x > 0:
                slope = 0.5 * d / max(x, _NOTHING)
        found[0, place], found[1, place] = fixed, slope
    return found


@compiled
def judged(
    errors: FloatArray,
    foretold: FloatArray,
    base: FloatArray,
    power: FloatArray,
    records: float,
    took_s: float,
    kept: float,
) -> FloatArray:
    """The errors of the fits, squared and as a logarithm, with that of another batch; so much of the others is kept."""
    found = np.empty(len(errors))
    for place in range(len(errors)):
        expected_s = max(1e-6, foretold[0, place] * base[place] + foretold[1, place] * (records / power[place]))
        off = math.log(took_s / expected_s)
        found[place] = kept * errors[place] + off * off
    return found


@compiled
def added(
    sums: FloatArray, base: FloatArray, work: FloatArray, took_s: FloatArray, weight: float, kept: float
) -> FloatArray:
    """The sums with another batch of a ``weight``; of the others so much is ``kept``."""
    found = np.empty(sums.shape)
    for place in range(sums.shape[1]):
        one, many, took = base[place], work[place], took_s[place]
        found[0, place] = kept * sums[0, place] + weight * (one * one)
        found[1, place] = kept * sums[1, place] + weight * (one * many)
        found[2, place] = kept * sums[2, place] + weight * (many * many)
        found[3, place] = kept * sums[3, place] + weight * (one * took)
        found[4, place] = kept * sums[4, place] + weight * (many * took)
    return found
