"""What the instances of a job cost."""

from __future__ import annotations

import json

import pytest

from headgate.core.budget import SpendingKeeper
from headgate.core.errors import StateError
from headgate.core.objective import CostLimit, parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Instances, Observation
from headgate.core.window import History
from tests.core.building import JOB, observation

HOUR_S, DAY_S = 3600.0, 86400.0


def observed(keeper: SpendingKeeper, hours: int, **sizes: Instances) -> SpendingKeeper:
    for minute in range(60 * hours + 1):
        keeper.observe(Observation(60.0 * minute, {}, sizes))
    return keeper


def test_money_is_what_instances_cost_while_they_are_there() -> None:
    spending = observed(SpendingKeeper({"job": 0.25}), 6, job=Instances(4, 4, 4)).spending(6 * HOUR_S)
    assert [spending.spent, spending.per_hour] == pytest.approx([6.0, 1.0])
    assert spending.projected == pytest.approx(24.0)
    assert spending.left is None


@pytest.mark.parametrize(
    ("instances", "per_hour"),
    [(Instances(5, 5, 2), 5.0), (Instances(2, 2, 5), 5.0), (Instances(5, 3, 3), 3.0)],
)
def test_those_that_start_or_leave_are_paid_for_too(instances: Instances, per_hour: float) -> None:
    assert observed(SpendingKeeper({"job": 1.0}), 1, job=instances).spending(HOUR_S).per_hour == per_hour


def test_operators_are_added_up_at_their_own_prices() -> None:
    sizes = {"parse": Instances(2, 2, 2), "join": Instances(3, 3, 3), "free": Instances(9, 9, 9)}
    assert observed(SpendingKeeper({"parse": 1.0, "join": 3.0}), 2, **sizes).spending(
        2 * HOUR_S
    ).spent == pytest.approx(22)


def test_a_limit_leaves_what_was_not_spent_in_its_period() -> None:
    keeper = observed(SpendingKeeper({"job": 1.0}, CostLimit(12.0, 6 * HOUR_S)), 24, job=Instances(1, 1, 1))
    spending = keeper.spending(24 * HOUR_S)
    assert [spending.spent, spending.left] == pytest.approx([6.0, 6.0])
    assert spending.covered_s == pytest.approx(6 * HOUR_S)


def test_what_was_spent_is_known_after_a_restart_and_counted_once() -> None:
    whole = observed(SpendingKeeper({"job": 1.0}), 4, job=Instances(2, 2, 2))
    first = observed(SpendingKeeper({"job": 1.0}), 2, job=Instances(2, 2, 2))
    again = SpendingKeeper({"job": 1.0})
    again.restore(json.loads(json.dumps(first.to_json())), is_same_run=True)
    for minute in range(90, 241):
        again.observe(observation(60.0 * minute))
    assert again.spending(4 * HOUR_S) == whole.spending(4 * HOUR_S)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (SpendingKeeper({"job": 1.0}, CostLimit(1.0, HOUR_S)).to_json(), "over 3600 s; the period is 86400 s now"),
        ({"period_s": DAY_S}, "damaged"),
    ],
)
def test_saved_spending_of_another_period_or_damaged_is_refused(saved: dict[str, object], message: str) -> None:
    with pytest.raises(StateError, match=message):
        SpendingKeeper({"job": 1.0}).restore(saved)


def test_the_window_knows_the_money_of_priced_jobs_only() -> None:
    free = History(JOB, objective=parse_objective("latency p95 < 10s"))
    priced = History(JOB, objective=parse_objective("latency p95 < 10s, cost < 12 per day, price 0.5"))
    own = History(
        Topology(("job",), sizing={"job": Sizing(price_per_instance_hour=2.0)}),
        objective=parse_objective("latency p95 < 10s"),
    )
    for window in (free, priced, own):
        assert window.spending() is None
        for minute in range(61):
            window.observe(observation(60.0 * minute, planned=3))
    assert free.spending() is None
    spending = priced.spending()
    assert spending is not None
    assert [spending.spent, spending.left] == pytest.approx([1.5, 10.5])
    of_own = own.spending()
    assert of_own is not None
    assert of_own.spent == pytest.approx(6.0)
