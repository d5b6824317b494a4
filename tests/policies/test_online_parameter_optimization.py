"""online-parameter-optimization: the search, the replay, and thresholds that follow a change of load."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Observation, Sample, Startup
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy
from headgate.policies.frame.readings import startup_s
from headgate.policies.online_parameter_optimization import (
    LoadStretch,
    Recorded,
    ReplayTerms,
    Thresholds,
    recorded,
    replay_cost,
)
from headgate.policies.tuning.random_search import recursive_random_search
from tests.core.building import JOB, policy

TERMS = ReplayTerms(min_instances=1, max_instances=4, trigger_interval_s=10, latency_bound_s=15, violation_price=10)
LATE = Thresholds(upper=0.9, lower=0.1, upper_for_s=1e9, lower_for_s=1e9)


def cost(
    loads: list[LoadStretch], bounds: Thresholds = LATE, instances: int = 1, waiting_s: float = 0.0, **terms: float
) -> float:
    return replay_cost(Recorded(loads, instances, waiting_s), bounds, replace(TERMS, **terms))  # type: ignore[arg-type]


def test_a_replay_that_never_acts_pays_for_its_size() -> None:
    assert cost([LoadStretch(10, 1.0)] * 6, instances=2) == 6 * 10 * 2


def test_a_replay_pays_for_the_time_over_the_bound_and_for_what_waits_in_the_end() -> None:
    # Work for 2 instances on one of them: 20, 30 and 40 s where 15 s are allowed; then 30 s of work wait.
    assert cost([LoadStretch(10, 2.0)] * 3) == pytest.approx(30 + 10 * 10 * (20 + 30 + 40) / 15 + 30 * 10)


def test_work_that_waits_makes_later_batches_late() -> None:
    # 1.2 on one: 12 s at first, then 2, 4 and 6 s of waiting on top: the third and fourth are over 15 s.
    assert cost([LoadStretch(10, 1.2)] * 4) == pytest.approx(40 + 10 * 10 * (16 + 18) / 15 + 8 * 10)


def test_work_that_waited_at_the_beginning_counts() -> None:
    # 30 s of work before anything comes: late for the first two of four stretches, until less than 15 s wait.
    assert cost([LoadStretch(10, 0.0)] * 4, waiting_s=30) == pytest.approx(40 + 10 * 10 * (30 + 20) / 15)


def test_where_all_is_late_more_instances_still_pay() -> None:
    few, many = (cost([LoadStretch(10, 2.0)] * 30, instances=size, waiting_s=100) for size in (1, 4))
    assert many < few


def test_a_replay_scales_out_and_in_after_the_durations() -> None:
    # Busy share 1 for 20 s: two instances from the third batch on; then work for a fifth of them, 30 s until one again.
    bounds = Thresholds(upper=0.9, lower=0.3, upper_for_s=20, lower_for_s=30)
    loads = [LoadStretch(10, 1.0)] * 3 + [LoadStretch(10, 0.2)] * 4
    assert cost(loads, bounds) == 10 * (1 + 1 + 2 + 2 + 2 + 2 + 1)


def test_an_instance_that_starts_is_paid_for_and_does_not_help_yet() -> None:
    bounds = Thresholds(upper=0.9, lower=0.1, upper_for_s=10, lower_for_s=1e9)
    loads = [LoadStretch(10, 1.5)] * 6
    paid = 10 * (1 + 2 * 5)
    assert cost(loads, bounds, max_instances=2, latency_bound_s=1e9) == paid
    assert cost(loads, bounds, max_instances=2, latency_bound_s=1e9, startup_s=30) == paid
    # Batches of 15 s are in time. While there is one instance, 5 s more wait with each of them.
    assert cost(loads, bounds, max_instances=2) == paid
    late = (20 + 25 + 30 + 17.5) / 15
    assert cost(loads, bounds, max_instances=2, startup_s=30) == pytest.approx(paid + 10 * 10 * late)


def test_nothing_is_removed_while_a_queue_keeps_instances_busy() -> None:
    bounds = Thresholds(upper=10, lower=0.5, upper_for_s=1e9, lower_for_s=10)
    loads = [LoadStretch(10, 0.2)] * 3
    assert cost(loads, bounds, instances=2, latency_bound_s=1e9) == 10 * (2 + 1 + 1)
    assert cost(loads, bounds, instances=2, waiting_s=100, latency_bound_s=1e9) == 10 * (2 + 2 + 2)


def test_nothing_is_done_in_the_grace_period() -> None:
    bounds = Thresholds(upper=0.9, lower=0.1, upper_for_s=10, lower_for_s=1e9)
    loads = [LoadStretch(10, 4.0)] * 4
    assert cost(loads, bounds, latency_bound_s=1e9) == 10 * (1 + 2 + 3 + 4)
    assert cost(loads, bounds, latency_bound_s=1e9, grace_period_s=20) == 10 * (1 + 2 + 2 + 2)


def test_the_recorded_load_is_arrivals_over_what_an_instance_gets_through() -> None:
    window = History(JOB)
    for at_s, rate, processed in ((10, 80, 50), (20, 100, 80), (30, 120, None)):
        sample = Sample("job", at_s, input_rate_per_s=rate, processed_rate_per_s=processed, backlog=200)
        window.observe(Observation(at_s, {"job": sample}, {"job": Instances(3, 3, 2)}))
    # It begins with the size that there was, and with 200 records for instances of 25/s.
    assert recorded(window, "job", 0) == Recorded([LoadStretch(10, 100 / 40), LoadStretch(10, 120 / 40)], 3, 8.0)


def test_a_load_whose_work_is_not_known_is_not_replayed() -> None:
    window = History(JOB)
    for at_s in (10, 20):
        sample = Sample("job", at_s, input_rate_per_s=80)
        window.observe(Observation(at_s, {"job": sample}, {"job": Instances(2, 2, 2)}))
    assert recorded(window, "job", 0) is None


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


@pytest.mark.parametrize("seed", range(8))
def test_it_never_tunes_itself_to_never(seed: int) -> None:
    """Instances cost a lot and lateness nothing, so doing nothing is best; still it grows when busy all the time."""
    settings = {"violation_price": 0}
    context = Context(parse_objective("latency < 15s"), JOB, seed)
    chosen, _ = run(make_policy("online-parameter-optimization", context, settings), STEADY_THEN_DOUBLE)
    upper, lower, *_ = chosen.snapshot()["tuned"]["job"]["thresholds"]
    assert chosen.snapshot()["tuned"]["job"]["optimised"] >= 1
    assert lower < upper <= 0.95


def test_start_up_times_that_were_measured_count_instead_of_the_setting() -> None:
    window = History(JOB)
    assert startup_s(window, "job", 30.0) == 30
    seen = (Startup("1", 0.0, registered_after_s=40.0), Startup("2", 0.0, registered_after_s=90.0))
    window.observe(Observation(100, {}, {"job": Instances(2, 2, 2)}, {"job": seen}))
    assert startup_s(window, "job", 30.0) == 90
    warm = Startup("3", 0.0, registered_after_s=40.0, first_task_after_s=60.0, warm_after_s=75.0)
    window.observe(Observation(200, {}, {"job": Instances(2, 2, 2)}, {"job": (warm,)}))
    assert startup_s(window, "job", 30.0) == 75


@pytest.mark.parametrize("resume_at", [30, 62, 100])
def test_stopped_and_resumed_it_decides_as_if_it_had_not_stopped(resume_at: int) -> None:
    whole, targets = run(policy("online-parameter-optimization", "latency < 15s"), STEADY_THEN_DOUBLE)
    parts, resumed = run(policy("online-parameter-optimization", "latency < 15s"), STEADY_THEN_DOUBLE, resume_at)
    assert resumed == targets
    assert parts.snapshot() == whole.snapshot()
