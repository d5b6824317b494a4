"""online-parameter-optimization: the search, the replay, and thresholds that follow a change of load."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from headgate.policies.tuning.random_search import recursive_random_search
from headgate.policies.tuning.threshold_replay import Load, Terms, Thresholds, recorded_load, replay_cost
from tests.core.building import JOB, policy

TERMS = Terms(min_instances=1, max_instances=4, trigger_interval_s=10, latency_bound_s=15, violation_price=10)
LATE = Thresholds(upper=0.9, lower=0.1, upper_for_s=1e9, lower_for_s=1e9)


def test_a_replay_that_never_acts_pays_for_its_size() -> None:
    assert replay_cost([Load(10, 1.0)] * 6, LATE, TERMS, instances=2) == 6 * 10 * 2


def test_a_replay_pays_for_the_time_over_the_bound() -> None:
    # Work for 2 instances on one of them: batches take 20 s, over the bound of 15 s from the first on.
    assert replay_cost([Load(10, 2.0)] * 3, LATE, TERMS, instances=1) == 3 * 10 * (1 + 10)


def test_work_that_waits_makes_later_batches_late() -> None:
    # 1.2 on one: 12 s at first, then 2, 4 and 6 s of waiting on top: the third and fourth are over 15 s.
    assert replay_cost([Load(10, 1.2)] * 4, LATE, TERMS, instances=1) == 40 + 2 * 10 * 10


def test_a_replay_scales_out_and_in_after_the_durations() -> None:
    # Busy share 2 for 20 s: two instances from the third batch on; then work for a fifth of them, 30 s until one again.
    bounds = Thresholds(upper=0.9, lower=0.3, upper_for_s=20, lower_for_s=30)
    loads = [Load(10, 1.0)] * 3 + [Load(10, 0.2)] * 4
    assert replay_cost(loads, bounds, TERMS, instances=1) == 10 * (1 + 1 + 2 + 2 + 2 + 2 + 1)


def test_the_recorded_load_is_arrivals_over_what_an_instance_gets_through() -> None:
    window = History(JOB)
    for at_s, rate, processed in ((10, 80, 50), (20, 100, 80), (30, 120, None)):
        sample = Sample("job", at_s, input_rate_per_s=rate, processed_rate_per_s=processed)
        window.observe(Observation(at_s, {"job": sample}, {"job": Instances(2, 2, 2)}))
    assert recorded_load(window, "job", 0) == [Load(10, 100 / 40), Load(10, 120 / 40)]


def test_the_search_finds_a_valley_and_is_repeatable() -> None:
    centre = np.array([0.2, 0.9, 0.5])

    def search(seed: int) -> tuple[list[float], float]:
        point, cost = recursive_random_search(
            lambda at: float(((at - centre) ** 2).sum()), 3, np.random.default_rng(seed), evaluations=300
        )
        return point.tolist(), cost

    assert search(1) == search(1)
    assert search(1)[1] < 0.01


def run(chosen: AnyPolicy, rates: list[float], resume_at: int | None = None) -> tuple[AnyPolicy, list[object]]:
    """Readings every 10 s of a job on 4 instances of 10 records/s that does not change its size."""
    window = History(JOB)
    targets: list[object] = []
    for index, rate in enumerate(rates):
        if index == resume_at:
            saved = json.dumps(chosen.snapshot())
            chosen = policy("online-parameter-optimization", "latency < 15s")
            chosen.restore(json.loads(saved))
        sample = Sample(
            "job",
            10.0 * index,
            input_rate_per_s=rate,
            processed_rate_per_s=40,
            processing_time_s=rate / 4,
            trigger_interval_s=10,
        )
        window.observe(Observation(10.0 * index, {"job": sample}, {"job": Instances(4, 4, 4)}))
        targets.append(chosen.decide(10.0 * index, window).targets["job"])
    return chosen, targets


STEADY_THEN_DOUBLE = [20.0 + 0.1 * (index % 3) for index in range(60)] + [
    40.0 + 0.1 * (index % 3) for index in range(60)
]


def test_thresholds_are_searched_when_the_load_changes_and_only_then() -> None:
    chosen, targets = run(policy("online-parameter-optimization", "latency < 15s"), STEADY_THEN_DOUBLE)
    optimised = [target.numbers["optimised"] for target in targets]  # type: ignore[attr-defined]
    assert set(optimised[:60]) == {0}
    assert optimised[-1] >= 1
    assert chosen.snapshot()["tuned"]["job"]["thresholds"] != [0.8, 0.3, 20, 120]
    assert "when the load had changed" in targets[-1].reason  # type: ignore[attr-defined]


@pytest.mark.parametrize("resume_at", [30, 62, 100])
def test_stopped_and_resumed_it_decides_as_if_it_had_not_stopped(resume_at: int) -> None:
    whole, targets = run(policy("online-parameter-optimization", "latency < 15s"), STEADY_THEN_DOUBLE)
    parts, resumed = run(policy("online-parameter-optimization", "latency < 15s"), STEADY_THEN_DOUBLE, resume_at)
    assert resumed == targets
    assert parts.snapshot() == whole.snapshot()
