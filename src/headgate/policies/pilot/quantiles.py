"""What values with weights lie between; for a compiler, as it is asked for several times a decision."""

from __future__ import annotations

import numpy as np

from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray

LOW, MIDDLE, HIGH = 0.05, 0.5, 0.95


@compiled
def quantiles(values: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """The middle, and what lies below and above nine tenths."""
    # Stable, so that it does not matter which of equal ones comes first.
    order = np.argsort(values, kind="mergesort")
    reached = np.cumsum(weights[order])
    last = len(values) - 1
    low = values[order[min(np.searchsorted(reached, LOW * reached[-1]), last)]]
    middle = values[order[min(np.searchsorted(reached, MIDDLE * reached[-1]), last)]]
    high = values[order[min(np.searchsorted(reached, HIGH * reached[-1]), last)]]
    return float(low), float(middle), float(high)
