"""Levels of rates, and how they follow each other."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.policies.planning.model import RateGrid, Transitions


@pytest.mark.parametrize(("rate", "level"), [(0, 0), (9.9, 0), (10.1, 1), (29, 1), (31, 2), (60, 3), (1e9, 3)])
def test_a_rate_belongs_to_the_nearest_level_and_to_the_last_beyond(rate: float, level: int) -> None:
    assert RateGrid(20.0, 4).level_of(rate) == level


def test_levels_reach_beyond_the_largest_rate_that_can_be_carried() -> None:
    grid = RateGrid.up_to(13.5, 20 / 60)
    assert grid.levels == 43
    assert grid.rates_per_s[-1] > 13.5


@pytest.mark.parametrize(("quantum", "levels"), [(0.0, 3), (-1.0, 3), (float("inf"), 3), (1.0, 0)])
def test_a_grid_that_cuts_nothing_is_refused(quantum: float, levels: int) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        RateGrid(quantum, levels)


def test_probabilities_are_shares_of_what_followed_and_an_unseen_level_stays() -> None:
    seen = Transitions(4, [0, 1, 1, 2, 1, 1])
    # 0 → 1 once; 1 → 1 twice, 1 → 2 once; 2 → 1 once; 3 never.
    expected: list[list[float]] = [[0, 1, 0, 0], [0, 2 / 3, 1 / 3, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert np.allclose(seen.matrix, expected)
    assert seen.visits == [1, 3, 1, 0]
    seen.add(1, 3)
    assert seen.matrix[1].tolist() == [0, 0.5, 0.25, 0.25]
    assert seen.shares().tolist() == [1 / 6, 4 / 6, 1 / 6, 0]


def test_counts_come_back_as_they_were_saved() -> None:
    seen, other = Transitions(4, [0, 1, 3, 3, 2, 0]), Transitions(4)
    other.load(seen.to_json())
    assert (other.counts == seen.counts).all()
    assert (other.matrix == seen.matrix).all()


@pytest.mark.parametrize("entries", [[[0, 4, 1]], [[-1, 0, 1]], [[0, 0, 0]], [[0, 1]]])
def test_counts_that_do_not_fit_are_refused(entries: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"does not fit|not enough values"):
        Transitions(4).load(entries)
