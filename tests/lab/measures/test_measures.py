"""What a run is measured to be, against runs of which it is known."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.course import rows
from headgate.core.errors import InputError
from headgate.core.objective import Objective, parse_objective
from headgate.lab.measures import RunMeasures, measures_of
from headgate.lab.measures.measures import Recovery, elasticity, recovery
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 5s, price 0.5").within(1, 10)


def measured(
    spec: str, *, policy: str = "static", start: int = 1, objective: Objective = OBJECTIVE, **options: Any
) -> RunMeasures:
    load = parse_workload(spec)
    job = {"service_rate_per_s": 10.0, "startup_s": 0.0, **options}
    result = simulate(policy, load, objective=objective, start=start, seconds=3600.0, **job)
    return measures_of(result, load, objective=objective, **job)


def test_a_size_that_is_just_right_is_measured_as_such() -> None:
    found = measured("constant:25", start=3)
    assert (found.under_accuracy_pct, found.over_accuracy_pct, found.under_time_pct, found.over_time_pct) == (0,) * 4
    assert (found.instability_pct, found.regret_pct, found.rescales_per_day) == (0.0, 0.0, 0.0)
    assert (found.instance_hours, found.clairvoyant_instance_hours, found.cost) == (3.0, 3.0, 1.5)
    assert (found.records_in_objective_pct, found.time_in_objective_pct) == (100.0, 100.0)
    assert (found.violations, found.recovery_median_s, found.recovery_worst_s) == (0, None, None)
    assert found.violated_at_end is False


def test_twice_too_much_is_a_hundred_per_cent_over() -> None:
    found = measured("constant:25", start=6)
    assert [found.over_accuracy_pct, found.over_time_pct, found.regret_pct] == pytest.approx([100, 100, 100])
    assert (found.under_accuracy_pct, found.under_time_pct) == (0, 0)


def test_too_little_is_cheaper_than_the_clairvoyant_and_late() -> None:
    found = measured("constant:25", start=2)
    assert [found.under_accuracy_pct, found.under_time_pct] == pytest.approx([100 / 3, 100])
    assert found.regret_pct == pytest.approx(-100 / 3)
    assert found.records_in_objective_pct is not None
    assert found.records_in_objective_pct < 5
    # A wait of 5 s is reached when 5 s of 20 records/s more than can be done are waiting: after 25 s.
    assert (found.violations, found.violated_at_end) == (1, True)
    assert found.recovery_worst_s == pytest.approx(3575)
    assert found.worst_backlog_records == pytest.approx(5 * 3600)


def test_a_policy_that_follows_is_measured_in_every_respect() -> None:
    found = measured("spike:base=15,peak=65,at=20m,width=10m", policy="reactive", start=2, startup_s=30.0)
    assert found.violations is not None
    assert found.violations >= 1
    assert found.recovery_worst_s is not None
    assert 0 < found.recovery_worst_s < 600
    assert found.recovery_median_s is not None
    assert found.recovery_median_s <= found.recovery_worst_s
    assert 0 < found.under_time_pct < 30
    assert found.instability_pct is not None
    assert 0 < found.instability_pct < 50
    assert found.rescales_per_day >= 48
    assert found.clairvoyant_instance_hours == pytest.approx((2 * 50 + 7 * 10 + 5 * 0.5) / 60, rel=0.01)


def test_measures_are_flat_numbers_that_json_can_hold() -> None:
    data = measured("constant:25", start=3, model="micro-batch").to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert all(value is None or isinstance(value, int | float) for value in data.values())
    assert {"latency_p99_s", "instance_hours", "regret_pct", "instability_pct"} <= set(data)


@pytest.mark.parametrize("goal", ["slow records < 20%", "throughput >= 95%"])
def test_what_an_objective_does_not_say_is_not_measured(goal: str) -> None:
    found = measured("constant:25", start=3, objective=parse_objective(goal).within(1, 10))
    assert (found.records_in_objective_pct, found.cost) == (None, None)
    assert (found.time_in_objective_pct, found.regret_pct) == (100.0, 0.0)


def test_a_job_that_may_be_idle_costs_the_clairvoyant_nothing() -> None:
    load = parse_workload("constant:0")
    result = simulate("static", load, objective=OBJECTIVE, service_rate_per_s=10.0, seconds=60.0)
    found = measures_of(result, load, objective=OBJECTIVE.within(0, 10), service_rate_per_s=10.0)
    assert (found.clairvoyant_instance_hours, found.regret_pct) == (0.0, None)


def test_a_step_of_nothing_is_refused() -> None:
    load = parse_workload("constant:25")
    result = simulate("static", load, objective=OBJECTIVE, service_rate_per_s=10.0, seconds=60.0)
    with pytest.raises(InputError, match=r"step_s 0.0 is not allowed; it must be finite and above 0"):
        measures_of(result, load, objective=OBJECTIVE, service_rate_per_s=10.0, step_s=0.0)


@given(supply=st.lists(st.integers(0, 9), min_size=2, max_size=20), demand=st.lists(st.integers(0, 9), min_size=20))
def test_elasticity_is_given_in_shares_and_perfect_supply_has_none(supply: list[int], demand: list[int]) -> None:
    needed = np.array(demand[: len(supply)], dtype=float)
    edges_s = np.array([60.0 * at for at in range(len(supply) + 1)])
    sizes = rows(((60 * at, 60 * at + 60, size, size) for at, size in enumerate(supply)), 4)
    found = elasticity(sizes, edges_s, needed)
    assert found.under_time_pct + found.over_time_pct <= 100 + 1e-9
    assert 0 <= found.under_accuracy_pct <= found.under_time_pct + 1e-9, "nobody can lack more than all"
    assert (found.over_accuracy_pct > 0) == (found.over_time_pct > 0)
    assert found.instability_pct is not None
    assert 0 <= found.instability_pct <= 100
    exact = elasticity(rows(((60 * at, 60 * at + 60, size, 0) for at, size in enumerate(needed)), 4), edges_s, needed)
    assert (exact.under_time_pct, exact.over_time_pct, exact.instability_pct) == (0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=2, max_size=30))
def test_elasticity_is_that_of_the_published_sums(minutes: list[tuple[int, int]]) -> None:
    """Herbst et al., Ready for Rain?, 2016, with a point for each minute."""
    supply, demand = (list(values) for values in zip(*minutes, strict=True))
    length = len(minutes)
    sizes = rows(((60 * at, 60 * at + 60, size, 0) for at, size in enumerate(supply)), 4)
    edges_s = np.array([60.0 * at for at in range(length + 1)])
    found = elasticity(sizes, edges_s, np.array(demand, float))
    moved = [
        min(abs(np.sign(supply[at] - supply[at - 1]) - np.sign(demand[at] - demand[at - 1])), 1)
        for at in range(1, length)
    ]
    sums = [
        sum(max(d - s, 0) / d for s, d in minutes) / length,
        sum(max(s - d, 0) / d for s, d in minutes) / length,
        sum(max(np.sign(d - s), 0) for s, d in minutes) / length,
        sum(max(np.sign(s - d), 0) for s, d in minutes) / length,
        sum(moved) / (length - 1),
    ]
    assert found.instability_pct is not None
    assert [
        found.under_accuracy_pct,
        found.over_accuracy_pct,
        found.under_time_pct,
        found.over_time_pct,
        found.instability_pct,
    ] == pytest.approx([100 * value for value in sums])


def test_supply_that_goes_the_other_way_is_unstable() -> None:
    sizes = rows([(0, 60, 1, 1), (60, 120, 2, 2), (120, 180, 1, 1), (180, 240, 1, 1)], 4)
    found = elasticity(sizes, np.array([0.0, 60.0, 120.0, 180.0, 240.0]), np.array([3.0, 2.0, 1.0, 1.0]))
    # Down against up, down with down, still with still.
    assert found.instability_pct == pytest.approx(100 / 3)
    assert elasticity(sizes, np.array([0.0, 30.0]), np.array([1.0])).instability_pct is None


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([], Recovery(0, None, None, is_violated_at_end=False)),
        ([(10, 20)], Recovery(1, 10.0, 10.0, is_violated_at_end=False)),
        ([(10, 20), (80, 100)], Recovery(1, 90.0, 90.0, is_violated_at_end=False)),
        ([(10, 20), (81, 100)], Recovery(2, 14.5, 19.0, is_violated_at_end=False)),
        ([(500, 700), (10, 20), (15, 17)], Recovery(2, 55.0, 100.0, is_violated_at_end=True)),
    ],
)
def test_a_violation_ends_when_it_is_calm_again(parts: list[tuple[float, float]], found: Recovery) -> None:
    assert recovery(rows(parts, 2), 0.0, 600.0) == found


def test_measures_do_not_depend_on_how_runs_are_ordered() -> None:
    first, second = (measured("sine:mean=40,amplitude=30,period=20m", policy="reactive", start=2) for _ in range(2))
    assert first == second
    assert not any(isinstance(value, float) and math.isnan(value) for value in first.to_json().values())
