"""ds2: true rates, one pass over the graph, one step."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy
from headgate.runtime.assembly import wire
from headgate.runtime.loop import Clock
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload
from tests.core.building import JOB, decision, observation, policy


def want(chosen: AnyPolicy, window: History, at_s: float, planned: int = 2, **fields: Any) -> tuple[int, str]:
    window.observe(observation(at_s, planned, sample=Sample("job", at_s, **fields)))
    target = chosen.decide(at_s, window).targets["job"]
    return target.instances, target.code


def after_an_interval(chosen: AnyPolicy, planned: int = 2, **fields: Any) -> tuple[int, str]:
    window = History(JOB)
    assert want(chosen, window, 0, planned, **fields)[1] == "between-decisions"
    return want(chosen, window, 10, planned, **fields)


@pytest.mark.parametrize(
    ("planned", "fields", "instances", "code"),
    [
        # Two instances get through 176/s while busy: 88/s each.
        (2, {"input_rate_per_s": 410, "processed_rate_per_s": 176}, 5, "falls-behind"),
        (2, {"input_rate_per_s": 176, "processed_rate_per_s": 176}, 2, "keeps-up"),
        (8, {"input_rate_per_s": 410, "processed_rate_per_s": 704}, 5, "fewer-keep-up"),
        # Half idle at 100/s: each would get through 100/s if it were busy all the time.
        (4, {"input_rate_per_s": 200, "utilization": 0.5, "backlog": 0}, 2, "fewer-keep-up"),
        # The source ignores a change of which all is one instance less.
        (2, {"input_rate_per_s": 100, "utilization": 0.5, "backlog": 0}, 2, "insignificant"),
        # Nothing arrives: one is enough, and how fast it is does not matter.
        (4, {"input_rate_per_s": 0}, 1, "fewer-keep-up"),
        (2, {"input_rate_per_s": 410}, 2, "no-data"),
        (2, {"processed_rate_per_s": 176}, 2, "no-data"),
        # A backlog is nothing to it.
        (2, {"input_rate_per_s": 176, "processed_rate_per_s": 176, "backlog": 1e6}, 2, "keeps-up"),
    ],
)
def test_the_size_is_the_rate_over_the_true_rate(
    planned: int, fields: dict[str, float], instances: int, code: str
) -> None:
    assert after_an_interval(policy("ds2", warm_up_s=0), planned, **fields) == (instances, code)


def test_a_scaling_factor_adds_a_share() -> None:
    fields = {"input_rate_per_s": 400.0, "processed_rate_per_s": 200.0}
    assert after_an_interval(policy("ds2", warm_up_s=0), 2, **fields) == (4, "falls-behind")
    assert after_an_interval(policy("ds2", warm_up_s=0, scaling_factor=0.25), 2, **fields) == (5, "falls-behind")


@pytest.mark.parametrize(("ratio", "instances"), [(None, 2), (1.5, 2), (1.0, 3)])
def test_sizes_that_should_do_and_do_not_are_enlarged(ratio: float | None, instances: int) -> None:
    """Sources get 100/s of 150/s done, although each instance seems to be good for 75/s."""
    window, chosen = History(JOB), policy("ds2", warm_up_s=0, target_rate_ratio=ratio)
    load = {"input_rate_per_s": 150, "processed_rate_per_s": 150}
    want(chosen, window, 0, 2, done=0, backlog=0, **load)
    assert want(chosen, window, 10, 2, done=1000, backlog=500, **load)[0] == instances


def test_it_waits_for_the_start_and_for_a_new_size_to_warm_up() -> None:
    window, chosen = History(JOB), policy("ds2", policy_interval_s=5)
    load = {"input_rate_per_s": 400.0, "processed_rate_per_s": 200.0}
    assert [want(chosen, window, at_s, 2, **load)[1] for at_s in (0, 5, 10, 15)][1:] == ["warming-up"] * 3
    assert want(chosen, window, 20, 2, **load) == (4, "falls-behind")
    window.record(decision(20, 2, 4))
    assert [want(chosen, window, at_s, 4, **load)[1] for at_s in (25, 30, 35, 40)] == ["warming-up"] * 4
    assert want(chosen, window, 45, 4, **load) == (8, "falls-behind")


@pytest.mark.parametrize(
    ("rate", "sizes"),
    [
        # ``consider_change`` of the source: a new configuration counts if any operator grows or loses more than one.
        ({"a": 300, "b": 300}, (4, 4)),
        ({"a": 300, "b": 200}, (3, 2)),
        ({"a": 500, "b": 300}, (5, 3)),
        ({"a": 300, "b": 400}, (4, 4)),
    ],
)
def test_one_instance_less_is_no_reason_to_rescale_a_job_and_goes_along_with_others(
    rate: dict[str, float], sizes: tuple[int, int]
) -> None:
    graph = Topology(("a", "b"), (), {name: Sizing(group="job") for name in ("a", "b")})
    chosen = make_policy("ds2", Context(parse_objective("latency < 10s"), graph), {"warm_up_s": 0})
    window = History(graph)
    found = []
    for at_s in (0.0, 10.0):
        samples = {name: Sample(name, at_s, input_rate_per_s=rate[name], processed_rate_per_s=400) for name in rate}
        window.observe(Observation(at_s, samples, {name: Instances(4, 4, 4) for name in rate}))
        targets = chosen.decide(at_s, window).targets
        found.append((targets["a"].instances, targets["b"].instances))
    assert found[-1] == sizes


def test_readings_of_the_size_before_do_not_count() -> None:
    window, chosen = History(JOB), policy("ds2", warm_up_s=0, policy_interval_s=5)
    want(chosen, window, 0, 2, input_rate_per_s=400, processed_rate_per_s=200)
    want(chosen, window, 5, 2, input_rate_per_s=400, processed_rate_per_s=200)
    window.record(decision(5, 2, 4))
    assert want(chosen, window, 10, 4, input_rate_per_s=400, processed_rate_per_s=400) == (4, "no-data")
    # Only what was measured since then tells that four get through 400/s, not 200/s.
    assert want(chosen, window, 15, 4, input_rate_per_s=400, processed_rate_per_s=400) == (4, "keeps-up")


def test_the_activation_time_takes_the_median_of_the_sizes_found() -> None:
    window, chosen = History(JOB), policy("ds2", warm_up_s=0, activation_s=30)
    rates = {0: 200, 10: 200, 20: 900, 30: 200, 40: 900, 50: 900}
    wanted = {
        at_s: want(chosen, window, at_s, 2, input_rate_per_s=r, processed_rate_per_s=200)[0]
        for at_s, r in rates.items()
    }
    assert wanted == {0: 2, 10: 2, 20: 9, 30: 2, 40: 9, 50: 9}


def test_with_a_window_it_shrinks_to_the_largest_size_found_in_it() -> None:
    window, chosen = History(JOB), policy("ds2", warm_up_s=0, scale_in_window_s=25)
    load = {0: 500, 10: 500, 20: 300, 30: 100, 40: 100, 50: 100}
    wanted = [want(chosen, window, at_s, 5, input_rate_per_s=r, processed_rate_per_s=500) for at_s, r in load.items()]
    assert wanted[1:] == [
        (5, "keeps-up"),
        (5, "needed-lately"),
        (5, "needed-lately"),
        (3, "fewer-keep-up"),
        (1, "fewer-keep-up"),
    ]


def test_a_job_with_long_trigger_intervals_is_measured_over_two_of_them() -> None:
    window, chosen = History(JOB), policy("ds2", policy_interval_s=10)
    batch = {"trigger_interval_s": 60.0, "input_rate_per_s": 400.0}
    # Only one batch has ended, 80 s ago.
    rates = [200.0 if at_s == 10 else None for at_s in range(0, 100, 10)]
    wanted = [want(chosen, window, 10 * i, 2, processed_rate_per_s=rate, **batch) for i, rate in enumerate(rates)]
    assert wanted[-1] == (4, "falls-behind")


def test_operators_that_are_rescaled_together_warm_up_together() -> None:
    graph = Topology(("a", "b"), (("a", "b"),), {name: Sizing(group="job") for name in ("a", "b")})
    chosen = make_policy("ds2", Context(parse_objective("latency < 10s"), graph), {"policy_interval_s": 5})
    window = History(graph)
    codes = []
    for at_s, ready in ((0, 1), (5, 2)):
        samples = {name: Sample(name, at_s, input_rate_per_s=10, processed_rate_per_s=10) for name in ("a", "b")}
        instances = {"a": Instances(2, 2, ready), "b": Instances(1, 1, 1)}
        window.observe(Observation(at_s, samples, instances))
        codes.append([target.code for target in chosen.decide(at_s, window).targets.values()])
    assert codes[-1] == ["warming-up", "warming-up"]


def test_a_whole_graph_is_sized_in_one_step() -> None:
    """The bottleneck hides what those after it will get; still, each is sized for it in the same decision."""
    graph = Topology.of(("parse", "enrich"), ("enrich", "store"))
    engine = SimulatedEngine(
        QueueNetwork(parse_workload("constant:100"), {"parse": 10, "enrich": 25, "store": 50}, topology=graph)
    )
    context = Context(Objective(parse_objective("latency < 10s").slo, 1, 20), graph)
    clock: Clock = engine
    loop = wire(engine, make_policy("ds2", context), clock, engine_name="simulated")
    sizes = []
    for cycle in range(10):
        engine.advance(5.0 * cycle)
        loop.tick()
        sizes.append(tuple(fleet.ready for fleet in engine.observe().instances.values()))
    # After the warm-up of 20 s.
    assert sizes == [(1, 1, 1)] * 4 + [(10, 4, 2)] * 6
