"""Readings that differ from all others made under the same conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

_NEIGHBOURS = 9
_DEVIATIONS = 4.0
_NORMAL = 1.4826
"""Times the median absolute deviation is the standard deviation, where errors are normal."""
TOLERANCE = 0.5
"""Half the objective's bound: a reading that is nearer than this to its neighbours is never left out."""


def typical(points: Sequence[tuple[float, int, float]]) -> list[bool]:
    """Whether each of (rate, instances, pressure) is like its neighbours of the same size and about the same rate.

    Neighbours rather than the whole: readings at the edge of what a size can carry are few, high, and what the model is
    for. One that stands alone among them is an accident.

    >>> steady = [(float(rate), 1, 0.01 * rate) for rate in range(20)]
    >>> typical([*steady, (10.5, 1, 1.8)]).count(False)
    1
    """
    values = np.array(points, dtype=float).reshape(-1, 3)
    kept = np.ones(len(values), dtype=bool)
    for size in np.unique(values[:, 1]):
        members = np.flatnonzero(values[:, 1] == size)
        if len(members) >= _NEIGHBOURS:
            order = members[np.argsort(values[members, 0], kind="stable")]
            kept[order] = _like_neighbours(values[order, 2])
    return [bool(one) for one in kept]


def _like_neighbours(pressures: FloatArray) -> NDArray[np.bool_]:
    first = np.clip(np.arange(len(pressures)) - _NEIGHBOURS // 2, 0, len(pressures) - _NEIGHBOURS)
    around = pressures[first[:, None] + np.arange(_NEIGHBOURS)]
    medians = np.median(around, axis=1)
    deviations = _NORMAL * np.median(np.abs(around - medians[:, None]), axis=1)
    like: NDArray[np.bool_] = np.abs(pressures - medians) <= np.maximum(TOLERANCE, _DEVIATIONS * deviations)
    return like
