"""Value iteration without a matrix over states gives what the plain Bellman loop gives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.policies.planning.central import CentralPlanner, ExactPlanner
from headgate.policies.planning.model import ApplicationModel, Floats, RateGrid, Sizes, application_cost
from headgate.policies.planning.solver import best_move, box_minimum, interval_minimum, spans_of
from tests.policies.planning.pipelines import pipeline

GRID = RateGrid(1.5, 6)
HISTORY = (2.5 + 2.9 * np.sin(np.arange(400) / 9)).round().astype(int)
DISCOUNT = 0.9


def reach(sizes: Sizes, application: ApplicationModel) -> list[Sizes]:
    """Every configuration that one action leads to."""
    steps = product((0, -1, 1), repeat=len(sizes))
    moved = (tuple(size + step for size, step in zip(sizes, change, strict=True)) for change in steps)
    lowest, highest = application.min_instances, application.max_instances
    return [item for item in moved if all(lowest <= size <= highest for size in item)]


def bellman(application: ApplicationModel, matrix: Floats, sweeps: int) -> dict[tuple[int, Sizes], float]:
    """Eq. 4, one state and one action after the other."""
    violated = application.violations(GRID.rates_per_s)
    sizes = range(application.min_instances, application.max_instances + 1)
    states = [(level, k) for level in range(GRID.levels) for k in product(sizes, repeat=len(application.operators))]
    value = dict.fromkeys(states, 0.0)
    for _ in range(sweeps):
        before, value = value, {}
        for level, k in states:
            costs = []
            for chosen in reach(k, application):
                cost = 0.0
                for after in range(GRID.levels):
                    is_over = bool(violated[(*(size - application.min_instances for size in chosen), after)])
                    slot = application_cost(
                        application.weights,
                        chosen,
                        application.max_instances,
                        reconfigured=chosen != k,
                        violated=is_over,
                    )
                    cost += matrix[level, after] * (slot + DISCOUNT * before[after, chosen])
                costs.append(cost)
            value[level, k] = min(costs)
    return value


@pytest.mark.parametrize(
    "application",
    [pipeline(2.0, bound_s=2.0, largest=4), pipeline(3.0, 2.0, bound_s=2.5, largest=3, smallest=1)],
    ids=["one operator", "two operators"],
)
def test_a_plan_is_that_of_the_plain_bellman_loop(application: ApplicationModel) -> None:
    planner = ExactPlanner(application, GRID, discount=DISCOUNT)
    planner.study(HISTORY.tolist())
    value = bellman(application, planner.transitions.matrix, sweeps=200)
    weight = application.weights.reconfiguration
    moves = set()
    for (level, sizes), least in value.items():
        chosen = planner.choose((level,), sizes)
        place = tuple(size - application.min_instances for size in chosen)
        planned = planner.after[(*place, level)] + weight * (chosen != sizes)
        assert planned == pytest.approx(least, abs=1e-5)
        assert chosen in reach(sizes, application)
        moves.add(tuple(new - old for new, old in zip(chosen, sizes, strict=True)))
    assert len(moves) > 2, "the case is no test if the plan never moves"


def test_one_sweep_of_learning_is_one_round_of_the_bellman_loop() -> None:
    application = pipeline(3.0, 2.0, bound_s=2.5, largest=3)
    planner = CentralPlanner(application, GRID, discount=DISCOUNT)
    planner.transitions.load(
        [[level, (level + step) % 6, 1 + level * step] for level in range(6) for step in (0, 1, 5)]
    )
    for _ in range(4):
        planner.after = planner.sweep(planner.after)
    value = bellman(application, planner.transitions.matrix, sweeps=4)
    for (level, sizes), least in value.items():
        chosen = planner.choose((level,), sizes)
        place = tuple(size - 1 for size in chosen)
        assert planner.after[(*place, level)] + 0.4 * (chosen != sizes) == pytest.approx(least, abs=1e-12)


@given(values=arrays(np.float64, (3, 4, 2), elements=st.floats(-10, 10)))
def test_the_box_minimum_is_the_least_of_all_neighbours(values: Floats) -> None:
    found = box_minimum(values)
    for i, j in product(range(3), range(4)):
        near = values[max(0, i - 1) : i + 2, max(0, j - 1) : j + 2]
        assert (found[i, j] == near.min(axis=(0, 1))).all()


@pytest.mark.parametrize(
    ("values", "position", "cost", "goes_to"),
    [
        ([1.0, 0.5, 0.0], 2, 0.4, 2),
        ([1.0, 0.5, 0.0], 1, 0.4, 2),
        ([1.0, 0.5, 0.0], 0, 0.4, 1),
        # Exactly as good is no reason to move.
        ([0.0, 0.4, 1.0], 1, 0.4, 1),
        ([0.0, 0.0, 0.0], 1, 0.0, 1),
    ],
)
def test_a_move_goes_one_step_and_only_if_it_is_better(
    values: list[float], position: int, cost: float, goes_to: int
) -> None:
    assert best_move(np.array(values), (position,), cost) == (goes_to,)


@given(data=st.data(), count=st.integers(1, 20))
def test_the_minimum_of_intervals_is_that_of_their_values(data: st.DataObject, count: int) -> None:
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).map(sorted)
    intervals = np.array(data.draw(st.lists(ends, min_size=1, max_size=20)))
    values = np.random.default_rng(count).normal(size=(count, 3))
    found = interval_minimum(values, spans_of(intervals[:, 0], intervals[:, 1]))
    assert found.tolist() == [values[first : last + 1].min(axis=0).tolist() for first, last in intervals]
