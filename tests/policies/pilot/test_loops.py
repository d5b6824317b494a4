"""Loops that are compiled where that can be: plain Python gives the same numbers, and so does numpy where it can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headgate.forecast.contract import FloatArray
from headgate.policies.pilot import experts, fits


def plain(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    """The function as it is written, whether or not it was compiled."""
    found: Callable[..., FloatArray] = getattr(function, "py_func", function)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_fits_are_those_of_plain_python(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 9
    sums = np.zeros((fits.SUMS, count))
    base, power = random.uniform(0.1, 1, count), random.uniform(1, 8, count)
    for _ in range(int(random.integers(1, 12))):
        records = float(random.uniform(1, 1000))
        took_s = np.full(count, 0.3 + 0.01 * records * float(random.uniform(0.5, 2)))
        given = (base, records / power, took_s, float(random.uniform(0.1, 10)), 0.998)
        assert np.array_equal(fits.added(sums, *given), plain(fits.added)(sums, *given))
        sums = fits.added(sums, *given)
    found = fits.solved(sums)
    assert np.array_equal(found, plain(fits.solved)(sums))
    assert (found >= 0).all()
    judging = (random.uniform(0, 3, count), found, base, power, 500.0, 4.0, 0.998)
    assert np.array_equal(fits.judged(*judging), plain(fits.judged)(*judging))


def test_a_fit_finds_what_batches_were_made_of() -> None:
    sums, one, many = np.zeros((fits.SUMS, 1)), np.ones(1), np.ones(1)
    for records in (100.0, 200.0, 300.0, 150.0):
        sums = fits.added(sums, one, records * many, np.array([0.5 + 0.01 * records]), 1.0, 1.0)
    assert fits.solved(sums)[:, 0] == pytest.approx([0.5, 0.01])


@pytest.mark.parametrize("length", [1, 2, 3, 7, 40, 200])
def test_experts_are_those_of_plain_python_and_numpy(length: int) -> None:
    history = np.random.default_rng(length).uniform(0, 500, length)
    rows = experts.extrapolated(history)
    for bins, row in zip(experts.MEANS_BINS, rows, strict=False):
        assert row == pytest.approx(np.full(experts.HORIZON_BINS, history[-bins:].mean()))
    for bins, row in zip(experts.TRENDS_BINS, rows[len(experts.MEANS_BINS) :], strict=False):
        recent = history[-bins:]
        if len(recent) < 3:
            assert row == pytest.approx(rows[0])
            continue
        line = np.polynomial.Polynomial.fit(np.arange(len(recent)), recent, 1)
        ahead = np.minimum(np.arange(1, experts.HORIZON_BINS + 1), len(recent))
        assert row == pytest.approx(np.maximum(0.0, line(len(recent) - 1 + ahead)), abs=1e-6)
    assert np.isnan(rows[-1]).all()
    errors = np.array([3.0, 1.0, np.nan, 2.0, 5.0, 1.5, 9.0, np.nan])
    told = experts.combined(rows, errors)
    known = np.where(np.isnan(errors), 9.0, errors)[:-1]
    weights = (1.0 / known) ** 4
    assert told == pytest.approx(weights @ rows[:-1] / weights.sum())
    assert (told >= 0).all()
