"""What other policies would have come to under the load of a recorded run."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.types import Sample
from headgate.lab.what_if import CandidatePolicy, recorded_load, what_if
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 20s, price 0.5").within(1, 8)
HPA, STATIC = CandidatePolicy("hpa", {}), CandidatePolicy("static", {"instances": 8})


def recorded(policy: str = "reactive", **options: Any) -> SimulationResult:
    return simulate(
        policy,
        parse_workload("sine:mean=30,amplitude=25,period=20m"),
        objective=OBJECTIVE,
        service_rate_per_s=10.0,
        startup_s=30.0,
        seconds=2400.0,
        **{"model": MicroBatch(trigger_interval_s=5.0, noise=0.05), **options},
    )


@pytest.fixture(scope="module")
def run() -> SimulationResult:
    return recorded()


def test_the_policy_that_acted_is_reproduced(run: SimulationResult) -> None:
    found = what_if(run.observations, [CandidatePolicy("reactive", {})], OBJECTIVE)["reactive"]
    assert found.instance_seconds == pytest.approx(run.summary.instance_seconds, rel=0.1)
    assert found.latency_p50_s == pytest.approx(run.summary.latency_p50_s, rel=0.15)


def test_others_come_to_what_they_would_have(run: SimulationResult) -> None:
    found, truly = what_if(run.observations, [HPA, STATIC], OBJECTIVE), recorded("hpa").summary
    assert list(found) == ["hpa", "static"]
    assert found["hpa"].instance_seconds == pytest.approx(truly.instance_seconds, rel=0.1)
    assert found["static"].instance_seconds == pytest.approx(8 * 2400, rel=0.05)
    # Until the eight are there, some are late.
    fixed = recorded("static", settings={"instances": 8}).summary
    assert found["static"].late_records_pct == pytest.approx(fixed.late_records_pct, abs=0.1)
    assert found["static"].cost == pytest.approx(0.5 * 8 * 2400 / 3600, rel=0.05)


def test_the_load_is_what_was_counted(run: SimulationResult) -> None:
    load = recorded_load([seen.samples["job"] for seen in run.observations if "job" in seen.samples])
    truly = parse_workload("sine:mean=30,amplitude=25,period=20m")
    assert load.arrivals(0.0, 2400.0) == pytest.approx(truly.arrivals(0.0, 2400.0), rel=0.02)


def test_a_counter_that_was_reset_makes_no_load() -> None:
    samples = [Sample("job", at_s, arrived=count) for at_s, count in ((0, 0), (10, 100), (20, 5), (30, 55))]
    assert [recorded_load(samples).rate_per_s(at_s) for at_s in (5, 15, 25)] == [10, 0, 5]


def test_a_run_that_tells_too_little_is_refused() -> None:
    with pytest.raises(InputError, match="do not tell what arrived"):
        what_if([], [HPA], OBJECTIVE)
    queue = recorded(model="queue")
    with pytest.raises(InputError, match="0 batches do not tell how long batches take"):
        what_if(queue.observations, [HPA], OBJECTIVE)
