"""The error budget: what may be missed, what of it is spent, and how fast."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace

import pytest

from headgate.core.budget import Budget, BudgetKeeper
from headgate.core.errors import StateError
from headgate.core.objective import By, LatencySlo, Slo, SlowShareSlo, ThroughputSlo, parse_objective
from headgate.core.types import Batch, Sample
from headgate.core.window import History
from tests.core.building import JOB, history, observation

HOUR_S, DAY_S = 3600.0, 86400.0
RATE = 10.0
"""Records that arrive per second."""


def counted(at_s: float, late: float, arrived: float | None = None) -> Sample:
    return Sample("job", at_s, arrived=RATE * at_s if arrived is None else arrived, late=late)


def keeper_after(slo: Slo, readings: Iterable[Sample]) -> BudgetKeeper:
    keeper = BudgetKeeper(slo)
    for reading in readings:
        keeper.observe(reading)
    return keeper


def after(slo: Slo, readings: Iterable[Sample]) -> Budget:
    """The budget at the last of some readings."""
    made = list(readings)
    found = keeper_after(slo, made).budget(made[-1].at_s)
    assert found is not None
    return found


def steady(hours: float, late_share: float, every_s: float = 60.0) -> list[Sample]:
    return [counted(every_s * k, late_share * RATE * every_s * k) for k in range(int(hours * HOUR_S / every_s) + 1)]


@pytest.mark.parametrize(
    ("late_share", "spent", "burn"),
    [(0.0, 0.0, 0.0), (0.025, 0.5, 0.5), (0.05, 1.0, 1.0), (0.2, 4.0, 4.0)],
)
def test_over_a_whole_day_the_share_spent_is_the_share_late_over_the_share_allowed(
    late_share: float, spent: float, burn: float
) -> None:
    budget = after(LatencySlo(10), steady(24, late_share))
    assert budget.missed_share == pytest.approx(late_share)
    assert budget.spent == pytest.approx(spent)
    assert budget.left == pytest.approx((0.05 - late_share) * RATE * DAY_S, abs=1e-6)
    assert [budget.burn_long, budget.burn_short] == pytest.approx([burn, burn])
    assert budget.covered_s == pytest.approx(DAY_S)


def test_a_bad_hour_at_the_start_spends_a_part_of_the_day_and_not_all_of_it() -> None:
    budget = after(LatencySlo(10), steady(1, 0.3))
    assert budget.missed_share == pytest.approx(0.3)
    assert budget.spent == pytest.approx(0.3 / 0.05 / 24)
    assert budget.burn_long == pytest.approx(6.0)


def test_the_short_window_sees_that_it_is_over_before_the_long_one_does() -> None:
    late = [counted(60.0 * minute, RATE * 60 * min(minute, 30)) for minute in range(41)]
    budget = after(LatencySlo(10), late)
    assert budget.burn_short == 0.0
    assert budget.burn_long is not None
    assert budget.burn_long > 10


def test_what_is_older_than_the_period_no_longer_counts() -> None:
    late_hour_then_none = [counted(60.0 * k, RATE * 60 * min(k, 60)) for k in range(26 * 60)]
    assert after(LatencySlo(10), late_hour_then_none).spent == pytest.approx(0.0, abs=1e-9)
    assert after(LatencySlo(10, period_s=7 * DAY_S), late_hour_then_none).spent > 0


@pytest.mark.parametrize("every_s", [5.0, 60.0, 900.0])
def test_rare_readings_cost_resolution_and_nothing_else(every_s: float) -> None:
    budget = after(LatencySlo(10), steady(6, 0.03, every_s))
    assert [budget.missed_share, budget.spent] == pytest.approx([0.03, 0.15])


def test_a_counter_reset_leaves_out_one_interval_only() -> None:
    restarted = [replace(reading, at_s=reading.at_s + HOUR_S) for reading in steady(1, 0.02)]
    budget = after(LatencySlo(10), [*steady(0.9, 0.02), *restarted])
    assert budget.missed_share == pytest.approx(0.02)
    assert budget.covered_s == pytest.approx(1.9 * HOUR_S)


def test_time_in_which_nobody_counted_is_not_known() -> None:
    blind = [Sample("job", HOUR_S + 60.0 * k) for k in range(60)]
    later = [counted(2 * HOUR_S + 60.0 * k, 0.0) for k in range(61)]
    budget = after(LatencySlo(10), [*steady(1, 0.1), *blind, *later])
    assert budget.covered_s == pytest.approx(2 * HOUR_S)
    assert budget.missed_share == pytest.approx(0.05)


def test_an_idle_job_spends_nothing_and_what_it_spent_before_stays() -> None:
    arrived, late = RATE * HOUR_S, 0.1 * RATE * HOUR_S
    idle = [counted(HOUR_S + 60.0 * k, late, arrived) for k in range(1, 121)]
    budget = after(LatencySlo(10), [*steady(1, 0.1), *idle])
    assert (budget.burn_long, budget.burn_short) == (0.0, 0.0)
    assert budget.missed == pytest.approx(late)
    assert budget.missed_share == pytest.approx(0.1)


def test_a_job_that_never_had_a_record_has_its_whole_budget() -> None:
    budget = after(LatencySlo(10), [counted(60.0 * k, 0.0, 0.0) for k in range(10)])
    assert (budget.missed_share, budget.spent, budget.left) == (None, 0.0, 0.0)


def test_before_there_are_two_readings_nothing_is_known() -> None:
    assert BudgetKeeper(LatencySlo(10)).budget(0.0) is None
    assert keeper_after(LatencySlo(10), [counted(0.0, 0.0)]).budget(0.0) is None


def test_where_nothing_may_be_late_one_late_record_breaks_it() -> None:
    strict = LatencySlo(10, 100)
    assert after(strict, steady(1, 0.0)).spent == 0.0
    assert after(strict, steady(1, 0.01)).spent == math.inf


def test_a_reading_that_is_reported_again_is_counted_once() -> None:
    readings = steady(1, 0.02)
    assert after(LatencySlo(10), [reading for reading in readings for _ in range(3)]) == after(LatencySlo(10), readings)


BY_TIME = LatencySlo(10, 90, HOUR_S, By.TIME)


@pytest.mark.parametrize(
    ("readings", "late_s"),
    [
        ([Sample("job", 60, latency_s=2)], 0),
        ([Sample("job", 60, latency_s=25)], 15),
        ([Sample("job", 60, latency_s=500)], 60),
        # A batch that was over the bound for 5 s, seen only after the next one had begun.
        ([Sample("job", 60, latency_s=1, batches=(Batch(30, 45, 9, oldest_s=30),))], 5),
        # The same wait, reported while it lasts and when it is over, counts once.
        (
            [Sample("job", 30, latency_s=16), Sample("job", 60, latency_s=0, batches=(Batch(20, 40, 9, oldest_s=14),))],
            16,
        ),
        ([Sample("job", 60, latency_s=1, batches=(Batch(30, 45, 0, oldest_s=0),))], 0),
    ],
)
def test_by_time_the_seconds_count_in_which_a_record_was_late(readings: list[Sample], late_s: float) -> None:
    budget = after(BY_TIME, [Sample("job", 0, latency_s=0), *readings])
    assert budget.missed == pytest.approx(late_s)
    assert budget.counted == pytest.approx(60)
    assert budget.total == pytest.approx(360)
    assert budget.spent == pytest.approx(late_s / 360)


@pytest.mark.parametrize(
    ("slo", "counted_", "missed"),
    [
        (ThroughputSlo(0.9, HOUR_S), 120, 60),
        (ThroughputSlo(0.9, HOUR_S, By.RECORDS), 900, 600),
        (SlowShareSlo(0.1, HOUR_S), 900, 180),
    ],
)
def test_each_kind_of_objective_counts_what_it_is_a_share_of(slo: Slo, counted_: float, missed: float) -> None:
    readings = [
        Sample("job", 0, arrived=0, backlog=0),
        Sample("job", 60, arrived=300, backlog=0, input_rate_per_s=5, processed_rate_per_s=9),
        Sample("job", 120, arrived=900, backlog=3, input_rate_per_s=10, processed_rate_per_s=9),
    ]
    budget = after(slo, readings)
    assert [budget.counted, budget.missed] == pytest.approx([counted_, missed])


@pytest.mark.parametrize("slo", [LatencySlo(10), BY_TIME, ThroughputSlo(0.9), SlowShareSlo(0.1)])
def test_what_an_engine_cannot_tell_is_not_counted(slo: Slo) -> None:
    assert keeper_after(slo, [Sample("job", 60.0 * k) for k in range(5)]).budget(240.0) is None


def test_a_budget_goes_on_after_a_restart_with_what_it_had_counted() -> None:
    readings = steady(2, 0.04)
    whole, first, again = (BudgetKeeper(LatencySlo(10)) for _ in range(3))
    for reading in readings:
        whole.observe(reading)
    for reading in readings[:60]:
        first.observe(reading)
    again.restore(json.loads(json.dumps(first.to_json())), is_same_run=True)
    # What the journal recalls was counted already, but for what came after the last save.
    for reading in readings[50:]:
        again.observe(reading)
    assert again.budget(readings[-1].at_s) == whole.budget(readings[-1].at_s)


def test_after_a_restart_counters_are_not_compared_with_those_of_the_engine_before() -> None:
    keeper = BudgetKeeper(LatencySlo(10))
    keeper.restore(keeper_after(LatencySlo(10), steady(1, 0.02)).to_json())
    for k in range(1, 61):
        keeper.observe(counted(HOUR_S + 60.0 * k, 9e6 + 0.02 * RATE * 60 * k, 9e6 + RATE * 60 * k))
    budget = keeper.budget(2 * HOUR_S)
    assert budget is not None
    assert budget.missed_share == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (
            keeper_after(LatencySlo(5), steady(1, 0.5)).to_json(),
            "'latency p95 < 5s'; the objective is 'latency p95 < 10s' now",
        ),
        ({"slo": "latency p95 < 10s"}, "until_s"),
        ({"slo": "latency p95 < 10s", "until_s": 0, "buckets": [[1]]}, "columns"),
    ],
)
def test_a_budget_of_another_objective_or_a_damaged_one_is_refused(saved: dict[str, object], message: str) -> None:
    keeper = keeper_after(LatencySlo(10), steady(1, 0.02))
    before = keeper.budget(HOUR_S)
    with pytest.raises(StateError, match=message):
        keeper.restore(saved)
    assert keeper.budget(HOUR_S) == before


def test_the_window_tells_how_the_budget_of_each_operator_stands() -> None:
    window = History(JOB, objective=parse_objective("latency p90 < 10s"))
    for reading in steady(3, 0.02):
        window.observe(observation(reading.at_s, sample=reading))
    budget = window.budget("job")
    assert budget is not None
    assert budget.missed_share == pytest.approx(0.02)
    assert budget.covered_s == pytest.approx(3 * HOUR_S), "longer than the window looks back"


def test_a_window_without_an_objective_knows_no_budget() -> None:
    assert history(steady(1, 0.02)).budget("job") is None


def test_a_budget_is_plain_data_for_those_who_want_it() -> None:
    data = json.loads(json.dumps(after(LatencySlo(10), steady(24, 0.025)).to_json()))
    assert data["asked"] == "latency p95 < 10s"
    assert data["spent"] == pytest.approx(0.5)
    assert data["burn"] == [
        {"over_s": HOUR_S, "rate": pytest.approx(0.5)},
        {"over_s": 300.0, "rate": pytest.approx(0.5)},
    ]


def test_records_that_wait_at_a_counter_reset_are_counted_so_that_no_more_are_late_than_arrived() -> None:
    slo = LatencySlo(10)
    first = [replace(counted(at_s, 0.0), backlog=RATE * at_s) for at_s in (0.0, 10.0, 20.0)]
    keeper = BudgetKeeper(slo)
    keeper.restore(json.loads(json.dumps(keeper_after(slo, first).to_json())))
    # While nobody looked 300 more came; all 500 are late then.
    for at_s, late in ((50.0, 0.0), (60.0, 250.0), (70.0, 500.0)):
        keeper.observe(Sample("job", at_s, arrived=0.0, late=late, backlog=500.0 - late))
    budget = keeper.budget(70.0)
    assert budget is not None
    assert (budget.counted, budget.missed) == pytest.approx((500.0, 500.0))


def test_a_budget_saved_without_waiting_records_is_restored() -> None:
    saved = keeper_after(LatencySlo(10), steady(1, 0.05)).to_json()
    del saved["waiting"]
    keeper = BudgetKeeper(LatencySlo(10))
    keeper.restore(saved)
    budget = keeper.budget(HOUR_S)
    assert budget is not None
    assert budget.missed_share == pytest.approx(0.05)


def test_a_reading_without_a_time_in_an_old_journal_is_passed_over() -> None:
    readings = steady(1.0, 0.01)
    spoiled = [
        *readings[:10],
        replace(readings[10], at_s=math.nan),
        replace(readings[10], at_s=math.inf),
        *readings[10:],
    ]
    assert after(LatencySlo(10.0), spoiled) == after(LatencySlo(10.0), readings)
    saved = keeper_after(LatencySlo(10.0), readings).to_json() | {"until_s": math.inf}
    with pytest.raises(StateError, match="counted until inf"):
        BudgetKeeper(LatencySlo(10.0)).restore(saved)
