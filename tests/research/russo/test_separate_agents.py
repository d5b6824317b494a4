"""Agents that live in processes of their own decide as agents of one process do, by one number of each other."""

from __future__ import annotations

import pytest

from headgate.research.russo.evaluation import World, make_planner
from headgate.research.russo.separate_agents import SeparateAgents
from headgate.research.russo.slotted_network import SlottedNetwork

SLOTS = 600


@pytest.mark.parametrize(("together", "numbers"), [(False, 0), (True, 2)])
def test_agents_in_processes_of_their_own_decide_the_same(together: bool, numbers: int) -> None:
    world = World(3, SLOTS)
    options = {"targets": (0.7,), "together": together}
    within = world.run(make_planner(world, "rl-decentralized", options))
    with SeparateAgents(world.application, world.grid, target=0.7, together=together) as agents:
        apart = SlottedNetwork(world.application, world.grid).run(agents, world.levels, (3, 3, 3))
    assert apart == within
    assert within.reconfigurations > 0
    assert agents.exchanged == 3 * numbers * SLOTS
