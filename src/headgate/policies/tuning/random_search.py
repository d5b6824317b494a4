"""Recursive random search: find a low cost in a box without knowing anything about it (Ye and Kalyanaraman, 2003)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]

_PROMISING_SHARE = 0.1
"""Exploring ends when a point among the best tenth of the space has been met …"""
_CONFIDENCE = 0.99
"""… with this probability."""
_SHRINK_AFTER = 3
"""Tries in a neighbourhood without a better point, after which it is halved."""
_SMALLEST = 1e-3
"""Neighbourhoods of a smaller share of the space are not searched."""


def recursive_random_search(
    cost: Callable[[Point], float], dimensions: int, random: np.random.Generator, *, evaluations: int
) -> tuple[Point, float]:
    """The best point found in the unit cube, and its cost.

    Explores the whole cube by random points, then exploits the neighbourhood of the best one: it moves there with
    every better point and becomes smaller when none is found. Then it explores again, until ``evaluations`` are spent.

    >>> found, least = recursive_random_search(
    ...     lambda point: float(abs(point - 0.3).sum()), 2, np.random.default_rng(0), evaluations=200
    ... )
    >>> least < 0.05
    True
    """
    explored = math.ceil(math.log(1 - _CONFIDENCE) / math.log(1 - _PROMISING_SHARE))
    best, least = np.full(dimensions, 0.5), math.inf
    left = evaluations
    while left > 0:
        points = random.random((min(left, explored), dimensions))
        costs = [cost(point) for point in points]
        left -= len(points)
        index = int(np.argmin(costs))
        centre, centre_cost, left = _exploited(cost, points[index], costs[index], random, left)
        if centre_cost < least:
            best, least = centre, centre_cost
    return best, least


def _exploited(
    cost: Callable[[Point], float], centre: Point, centre_cost: float, random: np.random.Generator, left: int
) -> tuple[Point, float, int]:
    """The best point near a promising one, its cost, and the evaluations that are left."""
    share, failed = _PROMISING_SHARE, 0
    while left > 0 and share > _SMALLEST:
        half_width = share ** (1 / len(centre)) / 2
        point = random.uniform(np.maximum(0, centre - half_width), np.minimum(1, centre + half_width))
        point_cost = cost(point)
        left -= 1
        if point_cost < centre_cost:
            centre, centre_cost, failed = point, point_cost, 0
            continue
        failed += 1
        if failed == _SHRINK_AFTER:
            share, failed = share / 2, 0
    return centre, centre_cost, left
