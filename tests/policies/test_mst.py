"""mst-0 … mst-7 and quantile: equations by hand, and the course of a block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.forecast import Forecast
from headgate.forecast.base import FloatArray
from headgate.policies.blocks.quantile_sizing import quantiles_of
from headgate.policies.frame.base import AnyPolicy, Context, make_policy, policy_class
from headgate.policies.mst import ExpectedLoad, MstSizer, Techniques, highest_load
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload

LINE = tuple((m, 100.0 * m + sign * 3) for m in (1, 2, 4) for sign in (-1, 1))
"""Through 100·m, with a deviation of √(103 / 4) = 5.074 and so a margin of 2.132·5.074 = 10.8 at 95 %."""
NONE, UA, OL, ARMA = (Techniques.of(number) for number in (0, 1, 2, 4))


@pytest.mark.parametrize(
    ("techniques", "load", "expected"),
    [
        (NONE, ExpectedLoad(299.0), 3),  # eq. 4: the least m with 100·m > load
        (NONE, ExpectedLoad(300.5), 4),
        (UA, ExpectedLoad(289.0), 3),  # eq. 8: 289 + 10.8
        (UA, ExpectedLoad(290.0), 4),  # 300.8
        (ARMA, ExpectedLoad(250.0, 25.0), 3),  # eq. 18: 250 + 1.645·25 = 291.1
        (ARMA, ExpectedLoad(250.0, 31.0), 4),  # 301.0
        (Techniques.of(5), ExpectedLoad(250.0, 29.5), 3),  # eq. 21: 250 + √(10.8² + (1.645·29.5)²) = 299.7
        (Techniques.of(5), ExpectedLoad(250.0, 30.0), 4),  # 300.5
        (NONE, ExpectedLoad(5000.0), 10),  # none is enough: the size that carries most
    ],
)
def test_the_least_size_that_is_probably_enough(techniques: Techniques, load: ExpectedLoad, expected: int) -> None:
    assert MstSizer(techniques, 0.95, 10, LINE).size(load) == expected


def test_at_one_half_uncertainty_makes_no_difference() -> None:
    assert (
        MstSizer(UA, 0.5, 10, LINE).size(ExpectedLoad(299.5))
        == MstSizer(NONE, 0.5, 10, LINE).size(ExpectedLoad(299.5))
        == 3
    )


def test_the_highest_load_counts_two_deviations_and_begins_after_the_lead() -> None:
    """Eq. 14: 90 + 2·30 beats 120 + 2·5; the 500 lies before the block."""
    forecast = Forecast.normal(np.array([500.0, 100.0, 120.0, 90.0]), np.array([1.0, 1.0, 5.0, 30.0]))
    assert highest_load(forecast, 2) == ExpectedLoad(90.0, 30.0)


def test_online_learning_follows_saturated_readings() -> None:
    learning, fixed = MstSizer(OL, 0.95, 10, LINE), MstSizer(NONE, 0.95, 10, LINE)
    for _ in range(50):
        for sizer in (learning, fixed):
            sizer.learn(4, 300.0)
            sizer.end_block()
    assert fixed.size(ExpectedLoad(310.0)) == 4
    assert learning.size(ExpectedLoad(310.0)) == 5


def test_readings_of_one_block_at_one_size_are_one_sample() -> None:
    once, often = MstSizer(OL, 0.95, 10, LINE), MstSizer(OL, 0.95, 10, LINE)
    once.learn(3, 250.0)
    for throughput in (240.0, 250.0, 260.0):
        often.learn(3, throughput)
    once.end_block()
    often.end_block()
    assert once.model == often.model


def test_without_training_the_first_saturated_reading_takes_its_place() -> None:
    sizer = MstSizer(NONE, 0.95, 10)
    assert sizer.size(ExpectedLoad(100.0)) is None
    sizer.learn(2, 180.0)
    sizer.end_block()
    assert sizer.size(ExpectedLoad(350.0)) == 4


@pytest.mark.parametrize("techniques", [UA, Techniques.of(5)])
def test_a_single_size_is_not_taken_for_certain(techniques: Techniques) -> None:
    """Without a margin mst-1 would be the same policy as mst-0 wherever nothing was measured before."""
    certain, unsure = MstSizer(NONE, 0.95, 10), MstSizer(techniques, 0.95, 10)
    for sizer in (certain, unsure):
        sizer.learn(2, 200.0)
        sizer.end_block()
    assert certain.size(ExpectedLoad(295.0)) == 3
    assert unsure.size(ExpectedLoad(295.0)) == 4


def test_until_something_was_measured_an_estimate_stands_in() -> None:
    sizer = MstSizer(NONE, 0.95, 10)
    sizer.estimate(8, 800.0)
    sizer.estimate(8, 720.0)
    assert sizer.size(ExpectedLoad(100.0)) is None
    sizer.end_block()
    # 760 of eight are 95 each.
    assert sizer.size(ExpectedLoad(180.0)) == 2
    sizer.learn(2, 160.0)
    sizer.estimate(2, 400.0)
    sizer.end_block()
    assert sizer.size(ExpectedLoad(180.0)) == 3
    # What was measured is not given up for what is guessed.
    sizer.estimate(2, 400.0)
    sizer.end_block()
    assert sizer.size(ExpectedLoad(180.0)) == 3


def test_measurements_are_not_given_up_for_estimates() -> None:
    sizer = MstSizer(NONE, 0.95, 10, LINE)
    sizer.estimate(8, 80.0)
    sizer.end_block()
    assert sizer.size(ExpectedLoad(299.0)) == 3


@pytest.mark.parametrize("name", ["mst-0", "mst-3", "mst-7", "quantile"])
def test_a_job_that_begins_too_large_is_made_smaller_though_it_is_never_saturated(name: str) -> None:
    result = simulate(
        name,
        parse_workload("constant:20"),
        objective=parse_objective("latency < 10s").within(1, 20),
        service_rate_per_s=10.0,
        model="micro-batch",
        start=20,
        startup_s=30.0,
        seconds=3600.0,
    )
    sizes = [seen.instances["job"].ready for seen in result.observations]
    assert sizes[0] == 20
    assert 2 <= sizes[-1] <= 5
    assert result.summary.slo_violation_pct == 0


def test_records_that_wait_for_their_batch_are_no_miss() -> None:
    """Readings of a job with batches always have a backlog; only more than it gets through is too much."""
    chosen = make_policy("quantile", Context(parse_objective("throughput >= 95%"), Topology.single()))
    window = History(Topology.single())
    for minute in range(61):
        sample = Sample(
            "job", 60.0 * minute, input_rate_per_s=20, processed_rate_per_s=50, backlog=100, trigger_interval_s=5
        )
        window.observe(Observation(60.0 * minute, {"job": sample}, {"job": Instances(5, 5, 5)}))
        chosen.decide(60.0 * minute, window)
    assert chosen.snapshot()["sizers"]["job"][0] <= np.log(8.0)


def test_there_are_eight_combinations() -> None:
    combinations = {policy_class(f"mst-{number}").techniques for number in range(8)}  # type: ignore[attr-defined]
    assert len(combinations) == 8
    assert policy_class("mst-7").techniques == Techniques(True, True, True)  # type: ignore[attr-defined]


def decide(policy: AnyPolicy, window: History, at_s: float, rate: float, planned: int) -> tuple[int, str]:
    sample = Sample("job", at_s, input_rate_per_s=rate, processed_rate_per_s=1000.0, backlog=0.0)
    window.observe(Observation(at_s, {"job": sample}, {"job": Instances(planned, planned, planned)}))
    target = policy.decide(at_s, window).targets["job"]
    return target.instances, target.code


def policy_named(name: str) -> tuple[AnyPolicy, History]:
    job = Topology.single()
    objective = parse_objective("throughput >= 95%").within(1, 10)
    return make_policy(name, Context(objective, job), {"training": "1:97,1:103,2:197,2:203,4:397,4:403"}), History(job)


def test_a_size_is_decided_when_a_block_begins_and_held_within_it() -> None:
    policy, window = policy_named("mst-0")
    assert decide(policy, window, 0, 150, 1) == (2, "block-needs-more")
    assert decide(policy, window, 60, 350, 2) == (2, "steady")
    assert decide(policy, window, 540, 350, 2) == (2, "steady")
    assert decide(policy, window, 600, 350, 2) == (4, "block-needs-more")
    assert decide(policy, window, 1200, 150, 4) == (2, "block-needs-fewer")


def test_with_forecasts_more_is_requested_ahead_of_the_block_and_less_waits_for_it() -> None:
    policy, window = policy_named("mst-4")
    decide(policy, window, 0, 150, 2)
    assert decide(policy, window, 420, 350, 2) == (2, "steady")
    assert decide(policy, window, 480, 350, 2) == (4, "block-needs-more")
    assert decide(policy, window, 1080, 150, 4) == (4, "waiting")
    assert decide(policy, window, 1140, 150, 4) == (4, "waiting")
    assert decide(policy, window, 1200, 150, 4) == (2, "block-needs-fewer")


def test_quantile_trims_when_a_block_begins_what_was_decided_ahead() -> None:
    policy, window = policy_named("quantile")
    for minute in range(8):
        decide(policy, window, 60.0 * minute, 150, 2)
    ahead, code = decide(policy, window, 480, 600, 2)
    assert (ahead > 6, code) == (True, "block-needs-more")
    decide(policy, window, 540, 150, ahead)
    begun, code = decide(policy, window, 600, 150, ahead)
    assert begun < ahead
    assert code == "block-needs-fewer"


SHARES = np.concatenate([np.linspace(0.0, 1.0, 41), (np.arange(200) + 0.5) / 200])


@given(arrays(np.float64, st.integers(1, 300), elements=st.floats(-3, 3)))
def test_quantiles_of_sorted_values_are_numpys_to_the_last_bit(values: FloatArray) -> None:
    assert np.array_equal(quantiles_of(np.sort(values), SHARES), np.quantile(values, SHARES))
