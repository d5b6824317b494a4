"""Settings at the ends of what is allowed: a decision takes moments and little memory, or they are refused."""

from __future__ import annotations

import tracemalloc

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.policies import Context, make_policy
from headgate.runtime.assembly import wire
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

CONTEXT = Context(parse_objective("latency p95 < 10s").within(1, 20), Topology.single())
MOST_BYTES = 500_000_000


@pytest.mark.parametrize("name", ["mdp", "mdp-path", "rl-centralized", "rl-decentralized"])
def test_a_very_fine_quantum_of_rates_is_widened(name: str) -> None:
    settings = {"rate_quantum_per_s": 1e-9, "service_rate_per_s": 10.0}
    engine = SimulatedEngine(QueueNetwork(parse_workload("constant:50"), 10.0, ready=6))
    loop = wire(engine, make_policy(name, CONTEXT, settings), engine, engine_name="simulated")
    tracemalloc.start()
    for tick in range(8):
        engine.advance(15.0 * tick)
        decision = loop.tick()
        assert decision is not None
        assert decision.verdicts["job"].code != "policy-failed"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("q-learning", {"max_latency_s": 1e6}),
        ("q-learning", {"latency_granularity_s": 1e-9}),
        ("value-iteration", {"max_latency_s": 1e9}),
        ("quantile", {"block_steps": 1_000_000}),
        ("quantile", {"startup_steps": 1_000_000}),
        ("online-parameter-optimization", {"evaluations": 1_000_000_000}),
    ],
)
def test_settings_that_would_fill_the_memory_or_never_end_are_refused(name: str, settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"not allowed|are allowed"):
        make_policy(name, CONTEXT, settings)
