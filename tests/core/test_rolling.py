"""Sums over the newest part of time, with bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.budget import BUCKETS, RollingSums

PERIOD_S = 2880.0
BUCKET_S = PERIOD_S / BUCKETS
SPANS = st.lists(st.tuples(st.floats(0.1, 500.0), st.floats(0.0, 100.0)), min_size=1, max_size=60)


def filled(spans: list[tuple[float, float]]) -> tuple[RollingSums, float]:
    """Sums of amounts that came one after the other, each over its seconds, and when that ended."""
    sums, at_s = RollingSums(PERIOD_S, 1), 0.0
    for elapsed_s, amount in spans:
        sums.add(at_s, at_s + elapsed_s, (amount,))
        at_s += elapsed_s
    return sums, at_s


@given(SPANS)
def test_within_a_period_nothing_is_lost(spans: list[tuple[float, float]]) -> None:
    short = [(elapsed_s * PERIOD_S / 60 / 500, amount) for elapsed_s, amount in spans]
    sums, now_s = filled(short)
    assert sums.over(PERIOD_S, now_s)[0] == pytest.approx(sum(amount for _, amount in short))


@given(SPANS, st.floats(BUCKET_S, PERIOD_S))
def test_a_part_is_the_sum_of_what_lies_in_it_but_for_one_bucket(
    spans: list[tuple[float, float]], span_s: float
) -> None:
    sums, now_s = filled(spans)
    exact, at_s, densest = 0.0, 0.0, max(amount / elapsed_s for elapsed_s, amount in spans)
    for elapsed_s, amount in spans:
        inside_s = max(0.0, at_s + elapsed_s - max(at_s, now_s - span_s))
        exact, at_s = exact + amount * min(1.0, inside_s / elapsed_s), at_s + elapsed_s
    assert sums.over(span_s, now_s)[0] == pytest.approx(exact, abs=densest * BUCKET_S + 1e-6)


def test_what_is_older_than_the_period_is_forgotten() -> None:
    sums = RollingSums(PERIOD_S, 1)
    sums.add(0.0, 100.0, (7.0,))
    assert sums.over(PERIOD_S, PERIOD_S + 200.0) == (0.0,)


def test_memory_does_not_grow_with_time() -> None:
    sums, now_s = RollingSums(PERIOD_S, 2), 0.0
    for _ in range(20_000):
        sums.add(now_s, now_s + 7.0, (1.0, 2.0))
        now_s += 7.0
    assert len(sums.to_json()) <= BUCKETS + 1
    assert sums.over(PERIOD_S, now_s) == pytest.approx((PERIOD_S / 7, 2 * PERIOD_S / 7), rel=0.01)


def test_a_stretch_longer_than_the_period_counts_with_its_newest_part() -> None:
    sums = RollingSums(PERIOD_S, 1)
    sums.add(0.0, 10 * PERIOD_S, (100.0,))
    assert sums.over(PERIOD_S, 10 * PERIOD_S)[0] == pytest.approx(10.0, rel=0.01)


@given(SPANS)
def test_restored_sums_continue_unchanged(spans: list[tuple[float, float]]) -> None:
    sums, now_s = filled(spans)
    again = RollingSums(PERIOD_S, 1)
    again.restore(sums.to_json())
    for either in (sums, again):
        either.add(now_s, now_s + 50.0, (5.0,))
    assert again.to_json() == sums.to_json()


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([[2, 1.0], [1, 1.0]], "do not rise"),
        ([[1, 1.0, 2.0]], "other than 1 columns"),
        ([[1, float("nan")]], "not finite"),
        ([["one", 1.0]], "invalid literal"),
        ([[]], "not enough values"),
    ],
)
def test_what_cannot_have_been_saved_is_refused(saved: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RollingSums(PERIOD_S, 1).restore(saved)
