"""Conformal intervals cover what they say, on every public trace."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.forecast import make_forecaster
from headgate.forecast.base import LEVELS
from headgate.workloads.traces import read_trace, trace_names
from tests.traces import needs_traces

STEPS = 3
WARM_UP = 100
LONGEST = 5000
LOW, HIGH = LEVELS.index(0.05), LEVELS.index(0.95)


@needs_traces
@pytest.mark.parametrize("name", trace_names())
def test_nine_of_ten_values_lie_in_the_interval_that_says_so(name: str) -> None:
    """Within two points, one step ahead and three."""
    forecaster = make_forecaster("conformal", {"horizon": STEPS})
    values = read_trace(name).rates_per_s[-LONGEST:]
    inside = np.zeros(STEPS)
    made: list[tuple[np.ndarray, np.ndarray]] = []
    for index, value in enumerate(values):
        if index >= WARM_UP:
            for ahead in range(STEPS):
                low, high = made[index - 1 - ahead]
                inside[ahead] += low[ahead] <= value <= high[ahead]
        forecaster.observe(value)
        forecast = forecaster.forecast(STEPS)
        quantiles = np.full((len(LEVELS), STEPS), np.nan) if forecast is None else forecast.quantiles
        made.append((quantiles[LOW], quantiles[HIGH]))
    coverage = 100 * inside / (len(values) - WARM_UP)
    assert (np.abs(coverage - 90) <= 2).all(), f"90 % intervals covered {coverage.round(2)} %"
