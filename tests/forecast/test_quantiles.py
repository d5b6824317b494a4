"""Quantiles of sorted values are those of numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.forecast.contract import FloatArray
from headgate.forecast.quantiles import quantiles_of

SHARES = np.concatenate([np.linspace(0.0, 1.0, 41), (np.arange(200) + 0.5) / 200])


@given(arrays(np.float64, st.integers(1, 300), elements=st.floats(-3, 3)))
def test_quantiles_of_sorted_values_are_numpys_to_the_last_bit(values: FloatArray) -> None:
    assert np.array_equal(quantiles_of(np.sort(values), SHARES), np.quantile(values, SHARES))
