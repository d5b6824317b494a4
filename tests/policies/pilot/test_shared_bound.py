"""autopilot over several operators: one objective from end to end."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from headgate.core.errors import StateError
from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies.autopilot import Autopilot
from headgate.policies.frame.base import Context, make_policy
from headgate.policies.pilot.shared_bound import Curve, SharedBound, cost_of, divide_parts, slack
from tests.policies.pilot.chains import BOUND_S, CHAIN, ChainResult, run_chain


@cache
def chain_run(*, equally: bool) -> ChainResult:
    return run_chain(equally=equally)


def test_a_chain_of_different_costs_keeps_its_objective_more_cheaply_than_with_equal_parts() -> None:
    together, equally = chain_run(equally=False), chain_run(equally=True)
    assert together.late_share <= 0.05
    assert equally.late_share <= 0.05
    assert together.cost < 0.97 * equally.cost
    # The expensive one is given time, and needs fewer instances for it.
    assert together.instances["enrich"] < 0.95 * equally.instances["enrich"]


def test_what_was_divided_goes_on_after_a_restart() -> None:
    policy = chain_run(equally=False).policy
    again = make_policy("autopilot", Context(policy.objective, CHAIN))
    again.restore(policy.snapshot())
    assert again.snapshot() == policy.snapshot()


def test_a_division_that_does_not_fit_is_refused() -> None:
    policy = chain_run(equally=False).policy
    state = dict(policy.snapshot())
    state["shared"] = {**state["shared"], "given": dict.fromkeys(CHAIN.operators, 9)}
    with pytest.raises(StateError, match="damaged"):
        make_policy("autopilot", Context(policy.objective, CHAIN)).restore(state)


@pytest.mark.parametrize(
    ("topology", "objective"),
    [
        (Topology.single(), "latency p95 < 10s"),
        (CHAIN, "latency p95 < 10s"),
    ],
)
def test_before_anything_is_known_every_operator_has_an_equal_part(topology: Topology, objective: str) -> None:
    policy = make_policy("autopilot", Context(parse_objective(objective), topology))
    assert isinstance(policy, Autopilot)
    history = History(topology)
    samples = {name: Sample(name, 0, latency_s=3) for name in topology.operators}
    history.observe(Observation(0, samples, {name: Instances(2, 2, 2) for name in topology.operators}))
    targets = policy.decide(0, history).targets
    # 3 s are more than half of a third of 10 s, and less than half of all of it.
    grown = 3 if len(topology.operators) == 3 else 2
    assert [target.instances for target in targets.values()] == [grown] * len(topology.operators)


def test_operators_with_objectives_of_their_own_are_sized_by_those() -> None:
    slo = parse_objective("latency p95 < 10s").slo
    objective = Objective(slo, operators=dict.fromkeys(CHAIN.operators, slo))
    policy = make_policy("autopilot", Context(objective, CHAIN))
    assert "shared" not in policy.snapshot()


def test_dearer_instances_weigh_more() -> None:
    topology = Topology(
        ("a", "b"),
        (("a", "b"),),
        {"a": Sizing(price_per_instance_hour=3.0), "b": Sizing(price_per_instance_hour=1.0)},
    )
    shared = SharedBound(topology, BOUND_S, {"a": 3.0, "b": 1.0})
    assert shared.bound_s("a") == shared.bound_s("b") == BOUND_S / 2
    assert shared._weights == {"a": 1.5, "b": 0.5}


LINE = Topology.of(("a", "b"), ("b", "c"))
FORK = Topology.of(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


def falling(random: np.random.Generator, parts: int) -> Curve:
    """What more of the bound never makes dearer."""
    steps = np.sort(random.exponential(20.0, parts))[::-1]
    return {place + 1: float(cost) for place, cost in enumerate(steps)}


@pytest.mark.parametrize("topology", [LINE, FORK], ids=["chain", "fork and join"])
@pytest.mark.parametrize("seed", range(10))
def test_no_path_gets_more_than_the_bound_and_nothing_is_left_over(topology: Topology, seed: int) -> None:
    random = np.random.default_rng(seed)
    given = divide_parts(topology, {name: falling(random, 12) for name in topology.operators}, 12)
    assert all(left == 0 for left in slack(topology, given, 12).values())


@pytest.mark.parametrize("topology", [LINE, FORK], ids=["chain", "fork and join"])
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
        ratios.append(cost_of(curves, divide_parts(topology, curves, 8)) / best)
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.15


def test_the_operator_that_saves_nothing_gets_the_least() -> None:
    flat, steep = dict.fromkeys(range(1, 13), 10.0), {parts: 240.0 / parts for parts in range(1, 13)}
    given = divide_parts(LINE, {"a": flat, "b": steep, "c": flat}, 12)
    assert given == {"a": 1, "b": 10, "c": 1}


def test_a_parallel_branch_takes_nothing_from_the_other() -> None:
    flat, steep = dict.fromkeys(range(1, 13), 10.0), {parts: 240.0 / parts for parts in range(1, 13)}
    given = divide_parts(FORK, {"a": flat, "b": steep, "c": steep, "d": flat}, 12)
    assert given["b"] == given["c"] == 10
