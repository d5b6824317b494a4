"""The table behind q-learning: regions, first values, eq. 4.4, ties and monotonicity, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import StateError
from headgate.policies.q_values.table import (
    Action,
    Grid,
    Initialiser,
    QState,
    QTable,
    Region,
    best_action,
    feasible_actions,
    first_values,
)

GRID = Grid(target_s=30, granularity_s=10, max_s=60)


@pytest.mark.parametrize(
    ("share", "rising", "region"),
    [
        (0.0, True, 1),
        (0.99, True, 1),
        (1.0, True, 2),
        (4.0, True, 2),
        (1.0, False, 3),
        (4.0, False, 3),
        (0.99, False, 4),
    ],
)
def test_the_four_regions(share: float, rising: bool, region: int) -> None:
    assert Region.of(share, rising=rising) == region


@pytest.mark.parametrize(
    ("share", "rising", "values"),
    [
        (0.8, True, (0.8, 0.2, 0.0)),  # eq. 4.10
        (1.4, True, (1.4, 0.4, -1.0)),  # eq. 4.11
        (1.4, False, (0.0, 1.0, -1.0)),  # eq. 4.12
        (0.8, False, (0.0, 0.8, 0.2)),  # eq. 4.13
    ],
)
def test_optimized_first_values_of_each_region(share: float, rising: bool, values: tuple[float, ...]) -> None:
    assert first_values(share, rising=rising) == pytest.approx(values)


def test_the_optimized_table_takes_the_middle_of_each_bucket_for_its_latency() -> None:
    table = QTable(GRID, Initialiser.OPTIMIZED)
    assert table.values(QState(2, True)) == pytest.approx((25 / 30, 5 / 30, 0))
    assert table.values(QState(3, True)) == pytest.approx((35 / 30, 5 / 30, -1))
    assert table.values(QState(3, False)) == (0, 1, -1)
    assert table.values(QState(0, False)) == pytest.approx((0, 5 / 30, 25 / 30))


def test_the_other_initialisers() -> None:
    assert all(QTable(GRID).values(state) == (0, 0, 0) for state in QTable(GRID).states())
    table = QTable(GRID, Initialiser.RANDOM, np.random.default_rng(1))
    drawn = [value for state in table.states() for value in table.values(state)]
    assert all(-1 < value < 1 for value in drawn)
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    ("latency_s", "bucket"), [(0, 0), (9.99, 0), (10, 1), (29.9, 2), (30, 3), (59.9, 5), (60, 6), (1e6, 6)]
)
def test_latency_falls_into_buckets_the_last_of_which_has_no_end(latency_s: float, bucket: int) -> None:
    assert GRID.bucket(latency_s) == bucket
    from_s, until_s = GRID.bounds_s(bucket)
    assert from_s <= latency_s < until_s


def test_a_third_of_the_target_divides_it_in_three() -> None:
    grid = Grid(target_s=10, granularity_s=10 / 3, max_s=20)
    assert (grid.buckets, grid.bucket(10.0), grid.bucket(20.0)) == (7, 3, 6)


def test_equation_4_4_by_hand() -> None:
    # (1 - 0.7) · 0.5 + 0.7 · (0.25 + 0.9 · 2) = 0.15 + 0.7 · 2.05
    table = QTable(GRID)
    table.put(QState(2, True), Action.OUT, 0.5)
    table.learn(QState(2, True), Action.OUT, reward=0.25, next_value=2, learning_factor=0.7, discount_factor=0.9)
    assert table.values(QState(2, True)) == pytest.approx((1.585, 0, 0))
    assert table.visits(QState(2, True)) == (1, 0, 0)


@pytest.mark.parametrize(
    ("values", "action"),
    [
        ((0.3, 0.2, 0.1), Action.OUT),
        ((0.1, 0.2, 0.3), Action.IN),
        ((0.3, 0.3, 0.1), Action.NONE),
        ((0.1, 0.3, 0.3), Action.NONE),
        ((0.3, 0.1, 0.3), Action.OUT),
        ((0.0, 0.0, 0.0), Action.NONE),
    ],
)
def test_ties_go_to_no_action_and_then_to_the_safer_side(values: tuple[float, float, float], action: Action) -> None:
    assert best_action(values) is action


@pytest.mark.parametrize(
    ("last", "before_s", "now_s", "ruled_out"),
    [
        (Action.OUT, 10.0, 12.0, Action.IN),
        (Action.OUT, 10.0, 10.0, None),
        (Action.OUT, 10.0, 8.0, None),
        (Action.IN, 10.0, 8.0, Action.OUT),
        (Action.IN, 10.0, 10.0, None),
        (Action.IN, 10.0, 12.0, None),
        (Action.NONE, 10.0, 12.0, None),
        (Action.NONE, 10.0, 8.0, None),
        (None, None, 8.0, None),
    ],
)
def test_monotonicity(last: Action | None, before_s: float | None, now_s: float, ruled_out: Action | None) -> None:
    assert set(Action) - set(feasible_actions(last, before_s, now_s)) == (
        {ruled_out} if ruled_out is not None else set()
    )


@given(st.floats(0, 500), st.booleans(), st.sampled_from(Action), st.floats(-10, 10))
def test_a_table_is_the_same_after_it_was_written_as_json(
    latency_s: float, rising: bool, action: Action, value: float
) -> None:
    table = QTable(GRID, Initialiser.OPTIMIZED)
    table.put(table.state(latency_s, rising=rising), action, value, visits=3)
    again = QTable.from_json(json.loads(json.dumps(table.to_json())))
    assert again.to_json() == table.to_json()
    assert again.grid == table.grid


def test_a_table_of_another_shape_is_refused() -> None:
    data = QTable(GRID).to_json()
    with pytest.raises(StateError, match=r"shape \(2, 2, 3\)"):
        QTable.from_json({**data, "values": data["values"][:2]})
