"""Agents that plan one operator each."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headgate.policies.planning.agents import AgentsPlanner
from headgate.policies.planning.central import CentralPlanner
from headgate.policies.planning.model import RateGrid, SlotOutcome, Weights
from headgate.research.russo.slotted_network import SlottedNetwork
from tests.policies.planning.pipelines import RUSSO, pipeline

GRID = RateGrid(20 / 60, 43)
LEVELS = (16 + 9 * np.sin(np.arange(1500) / 60) + np.random.default_rng(4).normal(0, 1, 1500)).round().astype(int)


def test_an_agent_alone_plans_as_the_whole_does_when_both_mean_the_same_by_a_violation() -> None:
    # With one operator eq. 2 is eq. 1; this bound is reached at a utilisation of 0.7: 0.5 · (1 + 0.7 / 0.6).
    single = pipeline(2.0, bound_s=0.5 * (1 + 0.7 / (2 * 0.3)) + 1e-9)
    grid = RateGrid(0.3, 36)
    agent, whole = AgentsPlanner(single, [grid], targets=[0.7 + 1e-9]), CentralPlanner(single, grid)
    network = SlottedNetwork(single, grid)
    levels = LEVELS.tolist()
    assert network.run(agent, levels, (2,)) == network.run(whole, levels, (2,))


def test_agents_pay_one_reconfiguration_each_or_share_one() -> None:
    alone = AgentsPlanner(RUSSO, [GRID] * 3, targets=[0.7])
    together = AgentsPlanner(RUSSO, [GRID] * 3, targets=[0.7], together=True)
    for planner in (alone, together):
        planner.after[:] = 0.0
        # Each would save 0.15 by one instance more: too little for each, enough for all.
        planner.after[0, :, 2, 10] = 0.15
    assert alone.choose((10,) * 3, (3, 3, 3)) == (3, 3, 3)
    assert together.choose((10,) * 3, (3, 3, 3)) != (3, 3, 3)
    assert all(size != 3 for size in together.choose((10,) * 3, (3, 3, 3)))
    together.after[0, 0, 2, 10] = 0.05
    assert together.choose((10,) * 3, (3, 3, 3)) == (3, 3, 3), "0.35 saved is less than 0.4"


def test_acting_together_reconfigures_less_often_and_costs_less() -> None:
    network = SlottedNetwork(RUSSO, GRID)
    alone, together = (
        network.run(AgentsPlanner(RUSSO, [GRID] * 3, targets=[0.7], together=together), LEVELS.tolist(), (3, 3, 3))
        for together in (False, True)
    )
    assert together.reconfigurations < alone.reconfigurations
    assert together.cost < alone.cost


def test_the_target_that_is_found_is_the_cheapest_of_the_fixed_ones() -> None:
    network, levels, targets = SlottedNetwork(RUSSO, GRID), LEVELS.tolist(), (0.5, 0.6, 0.7, 0.8, 0.9)
    costs = {
        target: network.run(AgentsPlanner(RUSSO, [GRID] * 3, targets=[target]), levels, (3, 3, 3)).average_cost
        for target in targets
    }
    finder = AgentsPlanner(RUSSO, [GRID] * 3, targets=targets, memory_slots=1e9)
    found = network.run(finder, levels, (3, 3, 3))
    assert finder.target == min(costs, key=lambda target: costs[target])
    assert found.average_cost < 1.05 * min(costs.values())
    # Shadows follow their own way: each has cost what its target costs when it is in charge.
    assert finder.to_json()["costs"] == pytest.approx(list(costs.values()))


def test_a_learned_penalty_is_that_of_readings_above_the_target() -> None:
    planner = AgentsPlanner(RUSSO, [GRID] * 3, targets=[0.7], known=False)
    planner.learn((10,) * 3, (2, 3, 4), (11,) * 3, SlotOutcome(utilizations=(0.8, 0.6, None)))
    learned = np.array(planner.to_json()["learned"])[0]
    assert learned[0, 1, 10] == pytest.approx(0.1 * Weights().violation)
    learned[0, 1, 10] = 0
    assert not learned.any()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_what_agents_have_learned_survives_a_restart(together: bool, known: bool) -> None:
    network, levels = SlottedNetwork(RUSSO, GRID), LEVELS[:301].tolist()

    def fresh() -> AgentsPlanner:
        return AgentsPlanner(RUSSO, [GRID] * 3, targets=(0.6, 0.7), together=together, known=known)

    whole, half, resumed = fresh(), fresh(), fresh()
    network.run(whole, levels, (3, 3, 3))
    sizes: tuple[int, ...] = (3, 3, 3)
    for slot in range(300):
        planner = half if slot < 150 else resumed
        if slot == 150:
            resumed.load(json.loads(json.dumps(half.to_json())))
        before, after = (levels[slot],) * 3, (levels[slot + 1],) * 3
        sizes = planner.choose(before, sizes)
        planner.learn(before, sizes, after, network.outcome(sizes, after[0]))
    assert resumed.to_json() == whole.to_json()


@pytest.mark.parametrize("shadows", [[[0, 0, 9]], [[0, 0]], [[0, 0, -1]]])
def test_state_that_does_not_fit_is_refused(shadows: list[list[int]]) -> None:
    planner = AgentsPlanner(RUSSO, [GRID] * 3, targets=[0.7])
    with pytest.raises(ValueError, match="fit"):
        planner.load(planner.to_json() | {"shadows": shadows})
