"""Keys: the requested skew, and the same key for the same record."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.workloads.draws import Keys, draws

RECORDS = 200_000


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 2.0])
def test_keys_are_as_frequent_as_zipf_says(skew: float) -> None:
    counted = np.bincount(Keys(count=50, skew=skew, seed=3).of(0, RECORDS), minlength=50)
    weights = np.arange(1, 51) ** -skew
    expected = RECORDS * weights / weights.sum()
    # Five deviations of a binomial.
    assert (np.abs(counted - expected) < 5 * np.sqrt(expected)).all()


@given(st.integers(0, 2**32), st.integers(0, 2**60), st.integers(1, 200), st.data())
def test_a_draw_belongs_to_its_record(seed: int, first: int, count: int, data: st.DataObject) -> None:
    whole = draws(seed, 1, first, count)
    skipped = data.draw(st.integers(0, count - 1))
    assert np.array_equal(draws(seed, 1, first + skipped, count - skipped), whole[skipped:])
    assert ((whole >= 0) & (whole < 1)).all()


def test_seeds_and_streams_differ() -> None:
    drawn = [draws(seed, stream, 0, 1000) for seed in (0, 1) for stream in (0, 1)]
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.15


def test_one_key_takes_all() -> None:
    assert set(Keys(count=1, skew=1.0).of(0, 100).tolist()) == {0}


@pytest.mark.parametrize(
    ("count", "skew", "message"),
    [
        (0, 0.0, "0 keys are not possible; 1 to 10,000,000 are."),
        (10**22, 0.0, "keys are not possible; 1 to 10,000,000 are."),
        (10, -1.0, "a skew of -1 is not possible; it must be finite and not negative."),
        (10, float("nan"), "a skew of nan is not possible; it must be finite and not negative."),
    ],
)
def test_impossible_keys_are_refused(count: int, skew: float, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Keys(count, skew)
