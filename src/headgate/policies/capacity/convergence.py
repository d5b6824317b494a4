"""When a measured throughput has settled (imai §II-A: K of the last N samples within ±δ of the sample before)."""

from __future__ import annotations

from collections.abc import Sequence

LAST = 5
LEAST = 4
TOLERANCE = 0.05
ENOUGH = 12
"""So many values tell how fast something is, though they do not settle."""


def converged(
    values: Sequence[float], last: int = LAST, least: int = LEAST, tolerance: float = TOLERANCE
) -> list[float] | None:
    """Those of the last ``last`` values that are within ``tolerance`` of the one before, once there are ``least``.

    >>> converged([10.0, 80.0, 99.0, 101.0, 100.0, 102.0, 101.0])
    [101.0, 100.0, 102.0, 101.0]
    >>> converged([10.0, 80.0, 99.0, 101.0, 100.0]) is None
    True
    """
    if len(values) < last:
        return None
    # The very first value has none before it to agree with.
    newest = range(max(1, len(values) - last), len(values))
    agreeing = [values[i] for i in newest if abs(values[i] - values[i - 1]) <= tolerance * values[i - 1]]
    return agreeing if len(agreeing) >= least else None


def middling(values: Sequence[float]) -> list[float]:
    """Of values that did not settle: the middle half of the newer half; none where there are too few.

    >>> middling([1.0] * 12 + [90.0, 100.0, 200.0, 110.0, 95.0, 20.0, 105.0, 98.0, 102.0, 99.0, 101.0, 97.0])
    [97.0, 98.0, 99.0, 100.0, 101.0, 102.0]
    >>> middling([100.0, 200.0, 50.0])
    []
    """
    if len(values) < ENOUGH:
        return []
    newer = sorted(values[len(values) // 2 :])
    cut = len(newer) // 4
    return newer[cut : len(newer) - cut]
