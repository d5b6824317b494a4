"""When a measured throughput has settled (imai §V-A: K of the last N samples within ±δ)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

LAST = 5
LEAST = 4
TOLERANCE = 0.05


def converged(
    values: Sequence[float], last: int = LAST, least: int = LEAST, tolerance: float = TOLERANCE
) -> list[float] | None:
    """Those of the last ``last`` values that agree, once at least ``least`` of them are within ``tolerance``.

    The values are compared with their median, which one that is far off does not move.

    >>> converged([10.0, 80.0, 99.0, 101.0, 100.0, 102.0])
    [99.0, 101.0, 100.0, 102.0]
    >>> converged([60.0, 80.0, 99.0, 101.0, 100.0]) is None
    True
    """
    if len(values) < last:
        return None
    newest = list(values[-last:])
    middle = median(newest)
    agreeing = [value for value in newest if abs(value - middle) <= tolerance * middle]
    return agreeing if len(agreeing) >= least else None
