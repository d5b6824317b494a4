"""A bound from end to end is divided where it buys most."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headgate.core.topology import Topology
from headgate.policies.pilot.shared_bound import Curve, cost_of, divided, slack

CHAIN = Topology.of(("a", "b"), ("b", "c"))
FORK = Topology.of(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


def falling(random: np.random.Generator, parts: int) -> Curve:
    """What more of the bound never makes dearer."""
    steps = np.sort(random.exponential(20.0, parts))[::-1]
    return {place + 1: float(cost) for place, cost in enumerate(steps)}


@pytest.mark.parametrize("topology", [CHAIN, FORK], ids=["chain", "fork and join"])
@pytest.mark.parametrize("seed", range(10))
def test_no_path_gets_more_than_the_bound_and_nothing_is_left_over(topology: Topology, seed: int) -> None:
    random = np.random.default_rng(seed)
    given = divided(topology, {name: falling(random, 12) for name in topology.operators}, 12)
    assert all(left == 0 for left in slack(topology, given, 12).values())


@pytest.mark.parametrize("topology", [CHAIN, FORK], ids=["chain", "fork and join"])
def test_the_division_costs_hardly_more_than_the_best_there_is(topology: Topology) -> None:
    ratios = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        curves = {name: falling(random, 8) for name in topology.operators}
        best = min(
            cost_of(curves, trial)
            for sizes in product(range(1, 9), repeat=len(topology.operators))
            if min(slack(topology, trial := dict(zip(topology.operators, sizes, strict=True)), 8).values()) >= 0
        )
        ratios.append(cost_of(curves, divided(topology, curves, 8)) / best)
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.15


def test_the_operator_that_saves_nothing_gets_the_least() -> None:
    flat, steep = dict.fromkeys(range(1, 13), 10.0), {parts: 240.0 / parts for parts in range(1, 13)}
    given = divided(CHAIN, {"a": flat, "b": steep, "c": flat}, 12)
    assert given == {"a": 1, "b": 10, "c": 1}


def test_a_parallel_branch_takes_nothing_from_the_other() -> None:
    flat, steep = dict.fromkeys(range(1, 13), 10.0), {parts: 240.0 / parts for parts in range(1, 13)}
    given = divided(FORK, {"a": flat, "b": steep, "c": steep, "d": flat}, 12)
    assert given["b"] == given["c"] == 10
