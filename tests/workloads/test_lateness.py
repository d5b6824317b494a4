"""Lateness: what a histogram of millions says is what the records themselves say."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.workloads.replay import SendLateness


def test_percentiles_are_those_of_the_records() -> None:
    late_s = np.random.default_rng(1).lognormal(-5.0, 1.5, 20_000)
    lateness = SendLateness()
    for chunk_s in np.split(late_s, 200):
        lateness.sent(100.0, 100.0 - chunk_s)
    for percent in (1, 50, 90, 99, 99.9):
        assert lateness.percentile_s(percent) == pytest.approx(np.percentile(late_s, percent), rel=0.03)
    assert lateness.max_s == pytest.approx(late_s.max(), abs=1e-9)
    assert lateness.percentile_s(100) == pytest.approx(late_s.max(), rel=0.03)


def test_a_record_that_is_sent_a_moment_too_early_by_rounding_is_not_late() -> None:
    lateness = SendLateness()
    lateness.sent(1.0, np.array([1.0 + 1e-7]))
    assert (lateness.max_s, lateness.percentile_s(99)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("sent", "share"),
    [
        ([(0.9, [0.1, 0.5]), (1.9, [1.1, 1.5])], 0.0),
        # One of four belongs into the second before.
        ([(0.5, [0.1]), (1.9, [0.6, 1.1, 1.5])], 0.25),
        # One came late from the second before and one left late for the next: the middle one is as it should be.
        ([(0.5, [0.1]), (1.9, [0.6, 1.1]), (2.0, [1.5, 2.0])], 0.2),
        ([(3.5, [0.1, 0.6, 1.1, 1.5])], 1.0),
        ([], 0.0),
    ],
)
def test_the_records_of_each_second_are_compared_with_those_due(
    sent: list[tuple[float, list[float]]], share: float
) -> None:
    lateness = SendLateness()
    for at_s, due_s in sent:
        lateness.sent(at_s, np.array(due_s))
    assert lateness.moved_share == share
