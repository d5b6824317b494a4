"""Planning along a nested chain."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.topology import Topology
from headgate.policies.planning.central import ExactPlanner
from headgate.policies.planning.model import ApplicationModel, RateGrid, SlotOutcome
from headgate.policies.planning.path import PathPlanner, nested_chain
from headgate.research.russo.slotted_network import SlottedNetwork
from tests.policies.planning.pipelines import RUSSO, RUSSO_RATES_PER_S, pipeline

GRID = RateGrid(20 / 60, 43)
RANDOM = np.random.default_rng(5)
LEVELS = (17 + 9 * np.sin(np.arange(4000) / 80) + RANDOM.normal(0, 1, 4000)).round().astype(int).tolist()


@given(speeds=st.lists(st.floats(0.5, 9.0), min_size=1, max_size=6), largest=st.integers(1, 6), bound=st.floats(0.1, 9))
@settings(max_examples=40, deadline=None)
def test_a_chain_grows_by_one_instance_from_the_smallest_to_the_largest(
    speeds: list[float], largest: int, bound: float
) -> None:
    application = pipeline(*speeds, bound_s=bound, largest=largest)
    chain = nested_chain(application)
    assert len(chain) == len(speeds) * (largest - 1) + 1
    assert (chain[0] == 1).all()
    assert (chain[-1] == largest).all()
    steps = np.diff(chain, axis=0)
    assert (steps >= 0).all()
    assert (steps.sum(axis=1) == 1).all()


def test_the_first_instance_goes_to_the_slowest_operator() -> None:
    assert nested_chain(RUSSO)[1].tolist() == [1, 1, 2]
    # An operator that sees half of the rate is in no hurry.
    halved = ApplicationModel(RUSSO.topology, RUSSO.service_rates_per_s, 1.95, 5, shares=(1.0, 1.0, 0.5))
    assert nested_chain(halved)[1].tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    "application",
    [
        RUSSO,
        pipeline(*RUSSO_RATES_PER_S, bound_s=2.6),
        # The chain as it is laid first is not the best one here.
        pipeline(2.24, 2.93, 4.83, bound_s=1.71),
        ApplicationModel(
            Topology.of(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")),
            (3.7, 2.0, 3.3, 2.7),
            1.9,
            4,
            shares=(1, 1, 1, 1),
        ),
    ],
    ids=["three", "four", "swapped", "diamond"],
)
def test_a_path_costs_what_the_exact_plan_costs(application: ApplicationModel) -> None:
    network = SlottedNetwork(application, GRID)
    exact, path = ExactPlanner(application, GRID), PathPlanner(application, GRID, sweeps=0)
    start = (2,) * len(application.operators)
    costs = []
    for planner in (exact, path):
        planner.study(LEVELS)
        costs.append(network.run(planner, LEVELS, start).average_cost)
    assert costs[1] <= 1.005 * costs[0]


def test_learned_on_line_without_response_times_it_comes_near_the_exact_plan() -> None:
    network, path = SlottedNetwork(RUSSO, GRID), PathPlanner(RUSSO, GRID, known=False)
    exact = ExactPlanner(RUSSO, GRID)
    exact.study(LEVELS)
    learned = network.run(path, LEVELS, (3, 3, 3)).average_cost
    assert learned <= 1.1 * network.run(exact, LEVELS, (3, 3, 3)).average_cost


def test_what_failed_with_more_instances_at_a_lower_rate_is_not_tried() -> None:
    planner = PathPlanner(RUSSO, GRID, known=False)
    planner.learn((10,), tuple(planner.chain[4]), (20,), SlotOutcome(violated=True))
    saturated = replace(RUSSO, bound_s=math.inf).violations_of(planner.chain, GRID.rates_per_s)
    expected = 0.4 * saturated
    expected[:5, 20:] = 0.4
    assert np.array_equal(planner._penalty, expected)
    # A place that was seen to do is believed over that.
    planner.learn((10,), tuple(planner.chain[3]), (25,), SlotOutcome(violated=False))
    assert planner._penalty[3, 25] == 0
    assert planner._penalty[3, 24] == 0.4


def test_from_next_to_the_chain_it_goes_towards_it_one_step_at_a_time() -> None:
    planner = PathPlanner(RUSSO, GRID)
    planner.study(LEVELS)
    sizes: tuple[int, ...] = (5, 1, 1)
    for _ in range(6):
        chosen = planner.choose((20,), sizes)
        assert max(abs(new - old) for new, old in zip(chosen, sizes, strict=True)) <= 1
        sizes = chosen
    assert list(sizes) in planner.chain.tolist()


def test_it_plans_for_twenty_operators() -> None:
    speeds = (RUSSO_RATES_PER_S * 5)[:20]
    application = pipeline(*speeds, bound_s=0.65 * 20)
    planner = PathPlanner(application, GRID, sweeps=3)
    tally = SlottedNetwork(application, GRID).run(planner, LEVELS[:200], (3,) * 20)
    assert len(planner.chain) == 81
    assert tally.average_instances < 80


def test_what_was_learned_survives_a_restart() -> None:
    network = SlottedNetwork(RUSSO, GRID)
    for known in (True, False):
        whole, half, resumed = (PathPlanner(RUSSO, GRID, known=known) for _ in range(3))
        whole_tally = network.run(whole, LEVELS[:301], (3, 3, 3))
        sizes: tuple[int, ...] = (3, 3, 3)
        instances = 0
        for slot in range(300):
            planner = half if slot < 150 else resumed
            if slot == 150:
                resumed.load(json.loads(json.dumps(half.to_json())))
            before, after = (LEVELS[slot],), (LEVELS[slot + 1],)
            sizes = planner.choose(before, sizes)
            instances += sum(sizes)
            planner.learn(before, sizes, after, network.outcome(sizes, after[0]))
        assert resumed.to_json() == whole.to_json()
        assert instances == whole_tally.instances


def test_a_saved_chain_that_is_none_is_refused() -> None:
    planner = PathPlanner(RUSSO, GRID)
    state = planner.to_json()
    state["chain"] = [[1, 1, 1]] * len(state["chain"])
    with pytest.raises(ValueError, match="chain"):
        planner.load(state)
