"""autopilot over several operators: one objective from end to end."""

from __future__ import annotations

from functools import cache

import pytest

from headgate.core.errors import StateError
from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies.autopilot import Autopilot
from headgate.policies.frame.base import Context, make_policy
from headgate.policies.pilot.shared_bound import SharedBound
from tests.policies.pilot.chains import BOUND_S, CHAIN, Came, run_chain


@cache
def came(*, equally: bool) -> Came:
    return run_chain(equally=equally)


def test_a_chain_of_different_costs_keeps_its_objective_more_cheaply_than_with_equal_parts() -> None:
    together, equally = came(equally=False), came(equally=True)
    assert together.late_share <= 0.05
    assert equally.late_share <= 0.05
    assert together.cost < 0.97 * equally.cost
    # The dear one is given time, and needs fewer instances for it.
    assert together.instances["enrich"] < 0.95 * equally.instances["enrich"]


def test_what_was_divided_goes_on_after_a_restart() -> None:
    policy = came(equally=False).policy
    again = make_policy("autopilot", Context(policy.objective, CHAIN))
    again.restore(policy.snapshot())
    assert again.snapshot() == policy.snapshot()


def test_a_division_that_does_not_fit_is_refused() -> None:
    policy = came(equally=False).policy
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
