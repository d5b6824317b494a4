"""Recursive random search: find a low cost in a box without knowing anything about it (Ye and Kalyanaraman, 2003)."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]
PointBatches = Generator[Sequence[Point], Sequence[float], None]
"""Yields points and expects their costs to be sent, until the search is done."""

_PROMISING_SHARE = 0.1
"""Exploring ends when a point among the best tenth of the space has been found …"""
_CONFIDENCE = 0.99
"""… with this probability."""
_SHRINK_AFTER = 3
"""Tries in a neighbourhood without a better point, after which it is halved."""
_SMALLEST = 1e-3
"""Neighbourhoods of a smaller share of the space are not searched."""


def recursive_random_search(
    cost: Callable[[Point], float], dimensions: int, random: np.random.Generator, *, evaluations: int
) -> tuple[Point, float]:
    """Return the best point found in the unit cube, and its cost.

    >>> found, least = recursive_random_search(
    ...     lambda point: float(abs(point - 0.3).sum()), 2, np.random.default_rng(0), evaluations=200
    ... )
    >>> least < 0.05
    True
    """
    best, least = np.full(dimensions, 0.5), math.inf
    batches = recursive_random_points(dimensions, random, evaluations=evaluations)
    points = next(batches, None)
    while points is not None:
        costs = [cost(point) for point in points]
        for point, found in zip(points, costs, strict=True):
            if found < least:
                best, least = point, found
        try:
            points = batches.send(costs)
        except StopIteration:
            points = None
    return best, least


def recursive_random_points(
    dimensions: int, random: np.random.Generator, *, evaluations: int, together: int = 1
) -> PointBatches:
    """The points of the search in their order, several at once where they do not depend on each other's costs.

    Explores the whole cube by random points, then exploits the neighbourhood of the best one: it moves there with
    every better point and becomes smaller when none is found. Then it explores again, until ``evaluations`` are spent.
    In a neighbourhood ``together`` points are evaluated at once; more than one makes the search slightly less precise.
    """
    explored = math.ceil(math.log(1 - _CONFIDENCE) / math.log(1 - _PROMISING_SHARE))
    left = evaluations
    while left > 0:
        points = list(random.random((min(left, explored), dimensions)))
        costs = yield points
        left -= len(points)
        index = int(np.argmin(costs))
        left = yield from _exploited(points[index], costs[index], random, left, together)


def _exploited(
    centre: Point, centre_cost: float, random: np.random.Generator, left: int, together: int
) -> Generator[Sequence[Point], Sequence[float], int]:
    """Points near a promising one; gives the evaluations that are left."""
    share, failed = _PROMISING_SHARE, 0
    while left > 0 and share > _SMALLEST:
        half_width = share ** (1 / len(centre)) / 2
        low, high = np.maximum(0, centre - half_width), np.minimum(1, centre + half_width)
        points = [random.uniform(low, high) for _ in range(min(left, together))]
        costs = yield points
        left -= len(points)
        index = int(np.argmin(costs))
        if costs[index] < centre_cost:
            centre, centre_cost, failed = points[index], costs[index], 0
            continue
        failed += len(points)
        if failed >= _SHRINK_AFTER:
            share, failed = share / 2, 0
    return left
