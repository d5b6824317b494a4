"""Value iteration over ``[size of each operator…, rate]``, without a transition matrix over states (russo eqs. 3, 4).

Sizes follow from the action and rates do not depend on it. Keep, for every configuration *after* an action and every
rate, the value G of having chosen it: what its slot costs and, expected over the next rate, what comes after it.
One sweep is then

    G = resources + (penalty + γ V) P      one matrix product
    V = min(G, w_rcf + box minimum of G)   staying, or the best configuration within one step of every operator

With one reconfiguration cost however many operators change, the minimum over 3^N actions is a box minimum, and that is
taken one axis after the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headgate.policies.planning.model import Floats

TIE = 1e-12
"""A move must be better than staying by more than rounding: ties stay."""
Places = NDArray[np.int64]
Spans = list[tuple[Places, Places, Places]]
"""By power of two: the indices of intervals, and where the two spans begin that cover each."""
Minimum = Callable[[Floats], Floats]
"""Returns for each configuration the least value among those that one action reaches."""


def box_minimum(values: Floats) -> Floats:
    """Return the minimum over the neighbours within one step along every axis but the last, including itself.

    >>> box_minimum(np.array([[3.0], [1.0], [4.0], [5.0]])).ravel().tolist()
    [1.0, 1.0, 1.0, 4.0]
    """
    result = values
    for axis in range(values.ndim - 1):
        source, result = result, result.copy()
        upper = (slice(None),) * axis + (slice(1, None),)
        lower = (slice(None),) * axis + (slice(None, -1),)
        np.minimum(result[upper], source[lower], out=result[upper])
        np.minimum(result[lower], source[upper], out=result[lower])
    return result


def spans_of(first: Places, last: Places) -> Spans:
    """Group intervals, both ends included, by the largest power of two that fits into each.

    Two spans of that length cover an interval, one from its first place and one up to its last.
    """
    lengths, longest = last - first + 1, int((last - first + 1).max())
    spans, width = [], 1
    while width <= longest:
        rows = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        spans.append((rows, first[rows], last[rows] - width + 1))
        width *= 2
    return spans


def interval_minimum(values: Floats, spans: Spans) -> Floats:
    """The least value along the first axis in each interval.

    >>> spans = spans_of(np.array([0, 0, 1]), np.array([0, 2, 2]))
    >>> interval_minimum(np.array([[3.0], [1.0], [4.0]]), spans).ravel().tolist()
    [3.0, 1.0, 1.0]
    """
    result, width = np.empty((sum(len(rows) for rows, _, _ in spans), *values.shape[1:])), 0
    for rows, first, last in spans:
        if width:
            values = np.minimum(values[:-width], values[width:])
        width = max(1, 2 * width)
        if rows.size:
            result[rows] = np.minimum(values[first], values[last])
    return result


def expected(values: Floats, by_next: Floats) -> Floats:
    """Return the expectation over the next level: ``[…, next level]`` to ``[…, level]``."""
    return (values.reshape(-1, len(by_next)) @ by_next).reshape(values.shape)


def value_of(after: Floats, reconfiguration: float, minimum: Minimum = box_minimum) -> Floats:
    """Return V from G: the better of staying and moving."""
    best = minimum(after)
    best += reconfiguration
    return np.minimum(after, best, out=best)


def solve(
    sweep: Callable[[Floats], Floats],
    start: Floats,
    discount: float,
    *,
    tolerance: float = 1e-7,
    most_sweeps: int = 5000,
) -> tuple[Floats, int]:
    """Repeat a sweep of G until it changes by the same amount everywhere; return G and the number of sweeps.

    From there each sweep would add ``discount`` times the amount of the previous one, so the rest is added at once.
    """
    after, count = start, 0
    while True:
        before, after = after, sweep(after)
        count += 1
        change = after - before
        least, most = float(change.min()), float(change.max())
        if most - least <= tolerance or count >= most_sweeps:
            return after + (least + most) / 2 * discount / (1 - discount), count


def best_move(values: Floats, position: tuple[int, ...], reconfiguration: float) -> tuple[int, ...]:
    """Return the best position within one step along each axis of ``[size of each operator…]``; ties stay.

    >>> best_move(np.array([1.0, 0.5, 0.0]), (2,), 0.4), best_move(np.array([0.0, 0.5, 0.5]), (1,), 0.4)
    ((2,), (0,))
    """
    box = tuple(slice(max(0, index - 1), index + 2) for index in position)
    near = values[box]
    least = int(near.argmin())
    if near.flat[least] + reconfiguration >= values[position] - TIE:
        return position
    offsets = np.unravel_index(least, near.shape)
    return tuple(part.start + int(offset) for part, offset in zip(box, offsets, strict=True))
