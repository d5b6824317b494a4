"""Intervals early in a series are bounded by what was seen, whatever the wrapped forecaster says."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.forecast import make_forecaster

STEPS = 12
SAWTOOTH = [100.0 + index % 60 for index in range(160)]
SHAPES = {
    "sawtooth": SAWTOOTH,
    "constant": [100.0] * 80,
    "one jump": [100.0] * 40 + [200.0] * 40,
    "one spike": [100.0] * 40 + [900.0] + [100.0] * 40,
    "noise": [float(value) for value in np.random.default_rng(1).poisson(100, 80)],
}


@pytest.mark.parametrize("inner", ["exponential-smoothing", "linear-trend"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_quantile_is_farther_from_what_was_seen_than_that_lies_apart(shape: str, inner: str) -> None:
    forecaster = make_forecaster("conformal", {"forecaster": inner, "horizon": STEPS})
    known = 0
    for index, value in enumerate(SHAPES[shape]):
        forecaster.observe(value)
        seen = SHAPES[shape][: index + 1]
        apart = max(seen) - min(seen)
        forecast = forecaster.forecast(STEPS)
        if forecast is None:
            continue
        known += 1
        assert (forecast.quantiles[-1] <= np.maximum(forecast.mean, max(seen)) + apart + 1e-6).all()
        assert (forecast.quantiles[0] >= np.minimum(forecast.mean, min(seen)) - apart - 1e-6).all()
    assert known > 60


def test_a_sawtooth_is_not_expected_to_reach_ten_times_its_height() -> None:
    """It read 1,093 once, on values from 100 to 159."""
    forecaster = make_forecaster("conformal", {"horizon": STEPS})
    for value in SAWTOOTH[:100]:
        forecaster.observe(value)
    forecast = forecaster.forecast(STEPS)
    assert forecast is not None
    assert (forecast.quantile(0.95) <= np.maximum(forecast.mean, 159.0) + 59.0).all()
