"""A run whose policy keeps its size is simulated without readings, with the same result to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Instant, Proposal, Target
from headgate.core.window import Window
from headgate.policies import Context, make_policy
from headgate.policies.static import Static
from headgate.runtime.simulate import Model, SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

BATCHES = MicroBatch(trigger_interval_s=3.0, overhead_s=0.4, noise=0.2, partitions=7, cold_task_s=1.0, skew=0.2)
LOADS = (
    "constant:30",
    "constant:41",  # More than four instances process.
    "constant:0",
    "sine:mean=30,amplitude=40,period=20m",
    "sine:mean=30,amplitude=9,period=17m",
    "periodic:base=10,peak=60,high=40s,low=80s",
    "ramp:from=10,to=60,over=30m",
    "gaussian:base=5,peak=55,center=30m,sigma=4m",
    "spike:base=20,peak=70,at=20m,width=5m",
    "constant:10 + sine:mean=10,amplitude=10,period=7m",
    "sine:mean=30,amplitude=20,period=30m | noise 20% every 30s seed 3",
    "sine:mean=30,amplitude=20,period=30m | clip 15..40 | shift 2m",
    "day:bursts,peak=50,lasting=1h",
    "clock:flush,peak=60,lasting=1h,seed=2",
)
MODELS: dict[str, Model] = {
    "queue": "queue",
    "micro-batch": "micro-batch",
    "tasks": BATCHES,
    "intervals": MicroBatch(batch_per_interval=True),
}


def _run(load: str, model: Model, **changes: Any) -> SimulationResult:
    return simulate(
        "static",
        parse_workload(load),
        **{
            "objective": parse_objective("latency p95 < 10s, price 0.25"),
            "service_rate_per_s": 10.0,
            "model": model,
            "start": 4,
            "interval_s": 7.3,
            "seconds": 3600.0,
            "seed": 5,
            **changes,
        },
    )


def _truth(result: SimulationResult) -> list[bytes]:
    course = result.record.truth
    assert course is not None
    parts = (course.waits, course.results, course.loads(), course.behind, course.sizes)
    return [*(np.asarray(part).tobytes() for part in parts), repr(course.max_backlog).encode()]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("load", LOADS)
def test_the_result_is_that_of_a_run_that_observes(load: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = _run(load, MODELS[model])
    with monkeypatch.context() as patch:
        patch.setattr(Static, "keeps", lambda self, size: False)
        observed = _run(load, MODELS[model])
    assert "observations" not in vars(quiet.record)
    assert quiet.summary == observed.summary
    assert _truth(quiet) == _truth(observed)
    assert (quiet.run, quiet.state, quiet.decisions) == (observed.run, observed.state, observed.decisions)
    # The readings are made when they are looked at.
    assert quiet.observations == observed.observations
    assert quiet.to_json() == observed.to_json()
    assert quiet.record.standing() == observed.record.standing()
    assert quiet.summary == observed.summary


def test_a_run_is_observed_where_readings_are_needed() -> None:
    assert "observations" not in vars(_run("constant:30", "queue").record)
    needing: tuple[dict[str, Any], ...] = (
        {"shadows": ["hpa"]},
        {"settings": {"instances": 5}},
        {"mode": "recommend"},
        {"objective": parse_objective("latency p95 < 10s, cost < 5 per day, price 1")},
    )
    for change in needing:
        assert "observations" in vars(_run("constant:30", "queue", **change).record), change


class _Larger(Static):
    name = "larger"

    def decide(self, now: Instant, window: Window) -> Proposal:
        return Proposal(dict.fromkeys(window.operators, Target(5, "larger", "larger")))


def test_a_policy_that_extends_it_decides_for_itself() -> None:
    context = Context(parse_objective("latency p95 < 10s"), Topology.single())
    assert make_policy("static", context).keeps(4)
    assert not _Larger(Static.Settings(), context).keeps(4)


def test_progress_is_reported_to_the_end() -> None:
    shares: list[float] = []
    _run("constant:30", "queue", interval_s=0.5, progress=shares.append)
    assert shares == sorted(shares)
    assert (len(shares) > 3, shares[-1]) == (True, 1.0)
