"""Means over repeats, differences over pairs, and when a difference is none."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.lab.measures import difference_in_words, estimate, is_noise, paired_difference

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12)


def test_the_interval_is_students() -> None:
    found = estimate([4.0, 6.0, 8.0, 10.0])
    # 3.182 · 2.582 / 2: the table's t of three degrees, and the deviation.
    assert (found.mean, found.count) == (7.0, 4)
    assert [found.low, found.high] == pytest.approx([7 - 4.108, 7 + 4.108], abs=1e-3)


@pytest.mark.parametrize(
    ("values", "confidence", "message"),
    [
        ([], 0.95, "there are no values to average"),
        ([1.0, float("nan")], 0.95, "cannot be averaged; they must be finite"),
        ([1.0], 1.0, "confidence 1.0 is not allowed"),
    ],
)
def test_what_cannot_be_averaged_is_refused(values: list[float], confidence: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        estimate(values, confidence)


@given(values=VALUES, shift=st.floats(-1e3, 1e3), factor=st.floats(0.1, 10.0))
def test_the_interval_holds_the_mean_moves_with_the_values_and_knows_no_order(
    values: list[float], shift: float, factor: float
) -> None:
    found = estimate(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.mean <= found.high
    assert estimate(values[::-1]) == found
    moved = estimate(factor * value + shift for value in values)
    assert moved.low == pytest.approx(factor * found.low + shift, rel=1e-6, abs=1e-3)
    assert moved.high == pytest.approx(factor * found.high + shift, rel=1e-6, abs=1e-3)
    wider = estimate(values, 0.99)
    assert wider.low is not None
    assert wider.low <= found.low


@given(values=VALUES, other=VALUES)
def test_who_is_compared_with_whom_changes_the_sign_and_nothing_else(values: list[float], other: list[float]) -> None:
    ours, theirs = dict(enumerate(values)), dict(enumerate(other))
    there, back = paired_difference(ours, theirs), paired_difference(theirs, ours)
    assert there.mean == -back.mean
    assert is_noise(there) == is_noise(back)
    assert there.pairs == min(len(values), len(other))
    assert there.unpaired == abs(len(values) - len(other))


@given(values=VALUES, gap=st.floats(1.0, 1e3))
def test_what_a_load_does_to_both_drops_out(values: list[float], gap: float) -> None:
    assume(len(set(values)) > 1)
    found = paired_difference({at: value + gap for at, value in enumerate(values)}, dict(enumerate(values)))
    assert not is_noise(found)
    assert found.mean == pytest.approx(gap, rel=1e-6)


@given(values=VALUES)
def test_the_same_is_no_difference(values: list[float]) -> None:
    ours = dict(enumerate(values))
    assert is_noise(paired_difference(ours, ours))
    assert is_noise(paired_difference(ours, {at: value * (1 + 1e-15) for at, value in ours.items()})), "rounding"


def test_noise_is_called_so_about_as_often_as_the_confidence_says() -> None:
    chance = np.random.default_rng(3)
    pairs = chance.normal(10.0, 2.0, (400, 2, 8))
    called = [is_noise(paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)))) for ours, theirs in pairs]
    assert np.mean(called) == pytest.approx(0.95, abs=0.03)


def test_of_five_skewed_values_a_bootstrap_is_too_sure() -> None:
    chance = np.random.default_rng(7)
    samples = chance.lognormal(0.0, 1.0, (400, 5))
    drawn = samples[np.arange(400)[:, None, None], chance.integers(0, 5, (400, 300, 5))].mean(axis=2)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
    true = np.exp(0.5)
    bootstrap = float(np.mean((low <= true) & (true <= high)))
    found = [estimate(sample) for sample in samples]
    student = float(np.mean([(interval.low or 0.0) <= true <= (interval.high or 0.0) for interval in found]))
    assert bootstrap < student - 0.05
    assert student > 0.75


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ([1.0], [3.0], "no difference seen (-2 h, one pair only)"),
        ([1.0, 2.0], [1.0, 2.0], "no difference seen (+0 to +0 h, 2 pairs)"),
        ([1.0, 3.0], [2.0, 2.5], "no difference seen (-9.78 to +9.28 h, 2 pairs)"),
        ([10.0, 20.0, 31.0], [11.0, 21.5, 32.2], "1.23 h less (0.608 to 1.86 h, 3 pairs)"),
        ([11.0, 21.5, 32.2], [10.0, 20.0, 31.0], "1.23 h more (0.608 to 1.86 h, 3 pairs)"),
    ],
)
def test_a_difference_inside_the_noise_is_called_one(ours: list[float], theirs: list[float], message: str) -> None:
    found = paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert difference_in_words(found, "h") == message
    assert found.to_json()["is_noise"] == message.startswith("no difference")


def test_pairs_need_something_in_common_and_what_is_not_known_has_no_partner() -> None:
    found = paired_difference({"a": 1.0, "b": None, "c": 4.0}, {"a": 2.0, "b": 3.0, "c": 6.0, "d": 1.0})
    assert (found.pairs, found.unpaired, found.mean) == (2, 2, -1.5)
    with pytest.raises(InputError, match="1 values and 1 have nothing in common; pairs are needed"):
        paired_difference({"a": 1.0}, {"b": 2.0})
