"""threshold: a metric beyond a bound for a time."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.core.types import Sample
from headgate.core.window import History
from tests.core.building import JOB, decision, history, observation, policy, propose


def busy(*shares: float | None, every_s: float = 10) -> list[Sample]:
    return [Sample("job", index * every_s, utilization=share) for index, share in enumerate(shares)]


SETTINGS = {"upper": 0.8, "lower": 0.3, "upper_for_s": 20, "lower_for_s": 40, "add": 2, "remove": 1}


@pytest.mark.parametrize(
    ("shares", "instances", "code"),
    [
        ((0.9, 0.9, 0.9), 6, "above-upper"),
        ((0.9, 0.9), 4, "waiting"),
        ((0.5, 0.9, 0.9), 4, "waiting"),
        ((0.9, 0.5, 0.9), 4, "waiting"),
        ((0.5, 0.9, 0.9, 0.9), 6, "above-upper"),
        ((0.8, 0.8, 0.8), 4, "steady"),
        ((0.2,) * 5, 3, "below-lower"),
        ((0.2,) * 4, 4, "waiting"),
        ((0.2, 0.2, 0.5, 0.2, 0.2), 4, "waiting"),
        ((0.3,) * 5, 4, "steady"),
        ((0.5,) * 5, 4, "steady"),
        ((0.9, None, 0.9), 6, "above-upper"),
        ((0.2, 0.2, None, 0.2, 0.2), 4, "waiting"),
        ((0.9, 0.9, 0.9, None), 4, "no-data"),
        ((0.2, 0.2, 0.2, 0.2, 0.2, None), 4, "no-data"),
    ],
)
def test_it_acts_when_every_reading_of_the_period_is_beyond_the_bound(
    shares: tuple[float | None, ...], instances: int, code: str
) -> None:
    target = propose(policy("threshold", **SETTINGS), history(busy(*shares), planned=4))
    assert (target.instances, target.code) == (instances, code)


def test_a_period_is_a_duration_and_not_a_number_of_readings() -> None:
    often = history(busy(*[0.9] * 20, every_s=1), planned=4)
    seldom = history(busy(0.9, 0.9, every_s=60), planned=4)
    chosen = policy("threshold", **SETTINGS)
    assert propose(chosen, often).code == "waiting"
    assert propose(chosen, seldom).code == "above-upper"


def test_readings_of_another_size_do_not_count() -> None:
    window = history(busy(*[0.9] * 6), planned=4)
    window.record(decision(35, 3, 4))
    chosen = policy("threshold", **SETTINGS, grace_period_s=0)
    assert propose(chosen, window).code == "waiting"
    window.observe(observation(60, 4, sample=Sample("job", 60, utilization=0.9)))
    assert propose(chosen, window).code == "above-upper"


@pytest.mark.parametrize(
    ("share", "code"),
    # A batch that began as instances joined and goes on for minutes calls for more; one that ends soon for nothing.
    [(0.9, "above-upper"), (0.2, "waiting")],
)
def test_a_long_batch_that_began_while_warming_up_does_not_put_growing_off(share: float, code: str) -> None:
    window = History(JOB)
    window.observe(observation(0, 4, 3))
    for at_s in range(10, 80, 10):
        sample = Sample("job", at_s, utilization=share, warming=True, batch_ended_s=0)
        window.observe(observation(at_s, 4, sample=sample))
    assert propose(policy("threshold", **SETTINGS), window).code == code


def test_a_running_batch_tells_how_busy_the_job_is_before_it_ends() -> None:
    readings = [
        Sample("job", at_s, processing_time_s=4, trigger_interval_s=10, batch_ended_s=0, running_s=at_s)
        for at_s in range(0, 50, 10)
    ]
    target = propose(policy("threshold", **SETTINGS), history(readings, planned=4))
    assert (target.code, target.numbers["busy_share"]) == ("above-upper", 4.0)


@pytest.mark.parametrize(("age_s", "code"), [(0, "grace-period"), (29, "grace-period"), (30, "above-upper")])
def test_it_does_nothing_for_a_grace_period_after_a_change_and_says_so(age_s: float, code: str) -> None:
    window = History(JOB)
    window.record(decision(-1, 3, 4))
    for sample in busy(0.9, 0.9, 0.9):
        window.observe(observation(sample.at_s, 4, sample=sample))
    target = propose(policy("threshold", **SETTINGS, grace_period_s=30), window, now=age_s - 1)
    assert target.code == code


@pytest.mark.parametrize(
    ("metric", "sample"),
    [
        ("latency_s", Sample("job", 0, latency_s=12)),
        ("backlog", Sample("job", 0, backlog=12)),
        ("heap", Sample("job", 0, metrics={"heap": 12})),
        ("busy_share", Sample("job", 0, processing_time_s=120, trigger_interval_s=10)),
    ],
)
def test_any_metric_will_do(metric: str, sample: Sample) -> None:
    target = propose(policy("threshold", metric=metric, upper=10, lower=1, upper_for_s=0), history([sample], planned=4))
    assert (target.instances, target.numbers[metric]) == (5, 12)


def test_a_metric_nobody_reports_is_named_in_the_hold() -> None:
    target = propose(policy("threshold", metric="heep"), history(busy(0.9), planned=4))
    assert (target.instances, target.code) == (4, "no-data")
    assert "heep" in target.reason


def test_the_loop_is_requested_to_keep_as_much_as_the_longest_period() -> None:
    assert policy("threshold", lower_for_s="3h").lookback_s >= 3 * 3600


FOUR_BOUNDS = {**SETTINGS, "below_upper": 0.7, "above_lower": 0.4}


@pytest.mark.parametrize(
    ("shares", "instances", "code"),
    [
        ((0.75, 0.75, 0.75), 6, "near-upper"),
        ((0.75, 0.9, 0.75), 6, "near-upper"),
        ((0.75, 0.75, 0.9), 6, "above-upper"),
        ((0.75, 0.65, 0.75), 4, "waiting"),
        ((0.7, 0.7, 0.7), 4, "steady"),
        ((0.35,) * 5, 3, "near-lower"),
        ((0.35, 0.2, 0.35, 0.2, 0.2), 3, "below-lower"),
        ((0.35,) * 4, 4, "waiting"),
        ((0.4,) * 5, 4, "steady"),
        ((0.5,) * 5, 4, "steady"),
    ],
)
def test_with_four_bounds_it_acts_on_what_stays_between_the_outer_and_the_inner_one(
    shares: tuple[float, ...], instances: int, code: str
) -> None:
    target = propose(policy("threshold", **FOUR_BOUNDS), history(busy(*shares), planned=4))
    assert (target.instances, target.code) == (instances, code)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lower": 0.9}, "lower 0.9 must be below upper 0.8"),
        ({"below_upper": 0.8}, "below_upper 0.8 must be below upper 0.8"),
        ({"above_lower": 0.3}, "lower 0.3 must be below above_lower 0.3"),
        ({"above_lower": 0.75, "below_upper": 0.7}, "above_lower 0.75 must be below below_upper 0.7"),
    ],
)
def test_bounds_that_are_out_of_order_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy("threshold", **settings)
