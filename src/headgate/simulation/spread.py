"""How numbers are spread, in a room that does not grow: one row for each narrow range of values.

Rows are weights and the two values between which each weight lies, evenly. Ranges are so narrow that no value moves by
more than ``RELATIVE_ERROR`` of itself, or by ``LEAST`` where it is smaller than that over the error. All values below 0
are one range. No weight is lost, and what lies above and below ``exact_at`` is told apart exactly.

>>> from headgate.core.course import rows
>>> compact(rows([(3.0, 2.0, 2.0), (1.0, 2.0, 2.0), (4.0, 7.0, 7.0)], 3)).tolist()
[[4.0, 2.0, 2.0], [4.0, 7.0, 7.0]]
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.core.course import POINT, Rows

Places = NDArray[np.intp]

RELATIVE_ERROR = 0.005
LEAST = 1e-3
MOST = 1e12
"""What is larger than this is all one."""


@lru_cache(maxsize=16)
def _edges(exact_at: float | None) -> Rows:
    """Where one range ends and the next begins: below the first and above the last there is one more each."""
    count = math.ceil(math.log(MOST / LEAST) / math.log1p(RELATIVE_ERROR)) + 1
    edges = np.concatenate([[0.0], np.geomspace(LEAST, MOST, count)])
    return edges if exact_at is None else np.unique(np.append(edges, exact_at))


def compact(spans: Rows, exact_at: float | None = None) -> Rows:
    """The same weights in at most one row for each range; what was compact before comes out as it was."""
    edges = _edges(exact_at)
    ranges = len(edges) + 1
    weight, low, high = spans[spans[:, 0] > 0].T
    last = np.searchsorted(edges, high, side="left")
    # A value at an edge belongs to the range below it, and a span that begins there lies above it.
    first = np.where(high - low > POINT, np.searchsorted(edges, low, side="right"), last)
    inside = first == last
    weights = np.bincount(last[inside], weight[inside], minlength=ranges).astype(np.float64)
    lows, highs = np.full(ranges, np.inf), np.full(ranges, -np.inf)
    np.minimum.at(lows, first, low)
    np.maximum.at(highs, last, high)
    first, last, weight, low, high = first[~inside], last[~inside], weight[~inside], low[~inside], high[~inside]
    if len(first):
        density = weight / (high - low)
        weights += np.bincount(first, density * (edges[first] - low), minlength=ranges)
        weights += np.bincount(last, density * (high - edges[last - 1]), minlength=ranges)
        highs[first] = edges[first]
        lows[last] = np.minimum(lows[last], edges[last - 1])
        within = _covered(first + 1, last, density, ranges)
        full = np.flatnonzero(within > 0)
        lows[full], highs[full] = np.minimum(lows[full], edges[full - 1]), edges[full]
        weights[full] += within[full] * (edges[full] - edges[full - 1])
    found = np.flatnonzero(weights > 0)
    return np.column_stack([weights[found], lows[found], highs[found]])


def _covered(first: Places, past: Places, density: Rows, ranges: int) -> Rows:
    """The sum of the densities of all that cover each range, from their first to before the one past them.

    Nothing is taken off again, which would leave a rest of rounding where nothing is: what covers many ranges is put
    down at once for as many as are a power of two, and handed on to the two halves of these, the largest first.
    """
    found = np.zeros(ranges)
    position = first.copy()
    levels = []
    for level in range(ranges.bit_length()):
        has = ((past - first) >> level & 1).astype(bool)
        levels.append(np.bincount(position[has], density[has], minlength=ranges).astype(np.float64))
        position[has] += 1 << level
    for level in range(len(levels) - 1, -1, -1):
        found += levels[level]
        if level:
            half = 1 << (level - 1)
            found[half:] += found[:-half].copy()
    return found
