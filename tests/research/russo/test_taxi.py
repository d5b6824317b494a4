"""Taxi-like arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.research.russo.taxi import MEAN_PER_MINUTE, taxi_counts


def test_the_mean_and_the_shape_of_a_day_are_those_of_taxis() -> None:
    counts = taxi_counts(4 * 7 * 1440, seed=1)
    assert counts.mean() == pytest.approx(MEAN_PER_MINUTE, rel=0.01)
    by_hour = counts.reshape(28, 24, 60)[:5].mean(axis=(0, 2))
    assert by_hour.argmin() in (3, 4)
    assert by_hour.argmax() in (18, 19, 20, 21)


def test_a_year_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, same, other = (taxi_counts(2000, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
