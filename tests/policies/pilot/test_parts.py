"""The parts of autopilot, each against what it claims."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.objective import LatencySlo
from headgate.policies.pilot.batch_time import BatchTimeModel
from headgate.policies.pilot.calibration import AHEAD_S, IntervalCalibrator
from headgate.policies.pilot.late_price import HIGHEST_AIM, LOWEST_AIM, LatePrice
from headgate.policies.pilot.load import BIN_S, LoadHistory
from headgate.policies.pilot.load_scenarios import HORIZON_BINS, ScenarioForecaster
from headgate.policies.pilot.operator_model import OperatorModel
from headgate.policies.pilot.rollout import BatchTimeParameters, JobState, PossibleFutures, Rollout
from headgate.policies.pilot.scale_in_window import ScaleInWindow

SERVICE = BatchTimeParameters(fixed_s=0.5, each_s=0.02, gamma=1.0, warm_factor=1.5)


def loaded(rates_per_s: list[float], every_s: float = 10.0) -> tuple[LoadHistory, ScenarioForecaster]:
    """A load that was followed from the start, with the rate of each bin."""
    load, forecaster, arrived = LoadHistory(), ScenarioForecaster(), 0.0
    load.add(0.0, 0.0)
    for number, rate in enumerate(rates_per_s, start=1):
        arrived += rate * every_s
        forecaster.observe(load, load.add(number * every_s, arrived))
    return load, forecaster


# --------------------------------------------------------------------------------------------------------------- load


@given(st.lists(st.tuples(st.floats(0.5, 40), st.floats(0, 500)), min_size=3, max_size=30))
def test_bins_add_up_to_what_the_counter_says_however_it_was_read(steps: list[tuple[float, float]]) -> None:
    load, at_s, arrived = LoadHistory(), 0.0, 0.0
    load.add(0.0, 0.0)
    for gap_s, more in steps:
        at_s, arrived = at_s + gap_s, arrived + more
        load.add(at_s, arrived)
    total = float(load.counts(1000).sum())
    assert total <= arrived + 1e-6
    assert load.newest_bin == int(at_s // BIN_S)


def test_a_counter_that_restarts_and_a_long_silence_make_no_wild_load() -> None:
    load = LoadHistory()
    for at_s, arrived in ((0, 0), (10, 100), (20, 200), (30, 5), (40, 105)):
        load.add(at_s, arrived)
    assert load.counts(4).tolist() == [100, 100, 0, 100]
    load.add(5000, 10_000)
    assert len(load) == 0


def test_the_first_bin_is_a_whole_one_whenever_the_first_reading_was_made() -> None:
    load = LoadHistory()
    for at_s in range(1007, 1040, 3):
        load.add(at_s, 50.0 * (at_s - 1007))
    assert load.counts(9).tolist() == pytest.approx([500, 500, 500])
    assert LoadHistory.from_json(json.loads(json.dumps(load.to_json()))).recent(2).tolist() == load.recent(2).tolist()


def test_a_few_seconds_tell_something_before_the_first_bin_is_complete() -> None:
    load = LoadHistory()
    load.add(1003.0, 0.0)
    load.add(1005.0, 80.0)
    assert len(load.recent(3)) == 0
    load.add(1008.0, 200.0)
    assert load.recent(3).tolist() == pytest.approx([400])
    assert ScenarioForecaster().scenarios(load).forecast == pytest.approx(np.full(HORIZON_BINS, 400.0))


@pytest.mark.parametrize(
    ("rates_per_s", "is_beyond"),
    [
        ([50.0] * 30, False),
        ([50.0] * 30 + [60.0], False),
        ([50.0] * 30 + [90.0], True),
        ([50.0] * 30 + [90.0] * 8, False),
        ([90.0, *[50.0] * 30, 90.0], False),
        ([0.1] * 30 + [0.5], False),
        ([50.0] * 3 + [200.0], False),
    ],
    ids=["steady", "a-little-more", "a-jump", "a-jump-a-minute-ago", "seen-before", "a-few-records", "no-experience"],
)
def test_a_load_is_beyond_experience_while_it_rises_above_all_that_arrived_before(
    rates_per_s: list[float], is_beyond: bool
) -> None:
    assert loaded(rates_per_s)[0].is_unprecedented is is_beyond


# ------------------------------------------------------------------------------------------------------------ service


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.7])
def test_batch_times_are_learned_with_how_well_instances_add_up(gamma: float) -> None:
    batch_time, random = BatchTimeModel(), np.random.default_rng(3)
    for _ in range(400):
        records, instances = random.uniform(100, 3000), int(random.integers(1, 12))
        batch_time.learn(records, instances, (0.4 + 0.02 * records / instances**gamma) * random.lognormal(0, 0.05))
    assert batch_time.gamma == pytest.approx(gamma, abs=0.051)
    assert float(batch_time.batch_s(2000, 6)) == pytest.approx(0.4 + 0.02 * 2000 / 6**gamma, rel=0.06)


def test_the_very_first_batch_tells_something() -> None:
    batch_time = BatchTimeModel()
    batch_time.learn(1000, 2, 10.0)
    assert batch_time.is_known
    assert 4 < float(batch_time.batch_s(1000, 4)) < 8


def test_a_slow_batch_is_chance_but_five_in_a_row_are_the_truth() -> None:
    batch_time = BatchTimeModel()
    for _ in range(50):
        batch_time.learn(1000, 2, 10.0)
    batch_time.learn(1000, 2, 30.0)
    assert float(batch_time.batch_s(1000, 2)) == pytest.approx(10, rel=0.05)
    assert batch_time.ratios().max() == pytest.approx(3, rel=0.1)
    for _ in range(25):
        batch_time.learn(1000, 2, 30.0)
    assert float(batch_time.batch_s(1000, 2)) == pytest.approx(30, rel=0.15)


def test_a_cold_batch_tells_of_warming_up_and_nothing_else() -> None:
    batch_time = BatchTimeModel()
    for _ in range(20):
        batch_time.learn(1000, 2, 10.0)
    for _ in range(30):
        batch_time.learn(1000, 2, 20.0, cold=True)
    assert float(batch_time.batch_s(1000, 2)) == pytest.approx(10, rel=0.05)
    assert batch_time.warm_factor == pytest.approx(2, rel=0.05)


def test_what_is_needed_is_where_a_cycle_takes_a_cycle() -> None:
    model = OperatorModel(LatencySlo(10.0), LatePrice(0.05))
    for records in range(100, 3000, 50):
        model.batch_time.learn(records, 2, 0.5 + 0.02 * records / 2)
    need = model.instances_for(200.0, 5.0)
    assert float(model.batch_time.batch_s(1000, need)) == pytest.approx(5.0, rel=0.02)


def test_batches_that_grow_tell_what_those_to_come_take() -> None:
    """Small ones all took as long, so that more records seem to cost nothing; the newest ones know better."""
    batch_time = BatchTimeModel()
    for records in [*(80 + number % 3 for number in range(30)), 129, 166]:
        batch_time.learn(records, 1, 1.8)
    assert batch_time.coefficients[1] < 0.003
    for records in (237, 305, 410, 500):
        batch_time.learn(records, 1, 0.85 + 0.0058 * records)
    assert batch_time.coefficients[1] < 0.0045
    assert batch_time.careful_coefficients[1] == pytest.approx(0.0058, rel=0.15)


def test_time_that_tasks_take_is_divided_among_instances_too() -> None:
    batch_time, random = BatchTimeModel(), np.random.default_rng(5)
    for _ in range(300):
        records, instances = float(random.uniform(100, 3000)), int(random.integers(1, 7))
        took_s = 0.2 + (1.8 + 0.01 * records) / instances
        batch_time.learn(records, instances, took_s * random.lognormal(0, 0.03))
    assert batch_time.divided == 0.9
    assert float(batch_time.batch_s(1000, 6)) == pytest.approx(0.2 + 11.8 / 6, rel=0.05)


def test_a_job_that_only_ever_grows_learns_that_its_records_take_longer() -> None:
    batch_time = BatchTimeModel()
    for _ in range(20):
        batch_time.learn(100, 1, 1.0)
    before = float(batch_time.batch_s(1000, 1))
    for records, instances in ((300, 2), (500, 3), (800, 4)):
        batch_time.learn(records, instances, 0.02 * records, cold=True)
    assert float(batch_time.batch_s(1000, 1)) > 1.2 * before


# ------------------------------------------------------------------------------------------------------------ outlook


def test_a_steady_load_goes_on_and_scenarios_are_close() -> None:
    load, forecaster = loaded([50.0] * 120)
    scenarios = forecaster.scenarios(load)
    assert scenarios.forecast == pytest.approx(np.full(HORIZON_BINS, 500.0), rel=0.01)
    assert scenarios.counts.min() == pytest.approx(500, rel=0.02)
    assert scenarios.weights.sum() == pytest.approx(1)


def test_a_trend_is_followed_but_never_far_beyond_what_was_seen() -> None:
    load, forecaster = loaded([50.0 + number for number in range(200)])
    forecast = forecaster.scenarios(load).forecast
    assert forecast[5] > 2500
    assert forecast.max() <= 1.2 * load.largest + 1e-6


@pytest.mark.parametrize("before", [6, 200], ids=["young", "beyond experience"])
def test_where_the_past_does_not_tell_a_rise_may_go_on(before: int) -> None:
    load, forecaster = loaded([50.0] * before + [100.0, 150.0, 200.0])
    scenarios = forecaster.scenarios(load)
    assert scenarios.forecast[2] > 2500
    assert scenarios.counts[:, 2].max() > 3000
    assert scenarios.counts[:, 2].min() < 2000, "it may also stay as it is"


def test_a_load_that_fell_in_a_young_record_is_not_expected_to_come_back() -> None:
    load, forecaster = loaded([50.0] * 6 + [400.0] * 6 + [50.0] * 6)
    assert forecaster.scenarios(load).forecast == pytest.approx(np.full(HORIZON_BINS, 500.0), rel=0.35)


def test_jumps_that_happened_may_happen_again() -> None:
    quiet, _ = loaded([50.0] * 300)
    jumps = [50.0 if number % 60 < 50 else 250.0 for number in range(300)]
    jumping, forecaster = loaded(jumps)
    worst = forecaster.scenarios(jumping).counts.max()
    assert worst > 1.5 * 500
    assert quiet.largest == 500


def test_a_season_is_found_and_never_demanded() -> None:
    day = [100 + 80 * np.sin(2 * np.pi * number / 720) for number in range(3 * 720)]
    _, forecaster = loaded(day)
    assert forecaster.season_minutes == pytest.approx(120, abs=3)
    _, flat = loaded([100.0] * 2000)
    assert flat.season_minutes is None


# -------------------------------------------------------------------------------------------------------------- price


@pytest.mark.parametrize(("late_share", "rises"), [(0.2, True), (0.0, False)])
def test_the_price_rises_while_too_many_are_late_and_falls_while_too_few_are(late_share: float, rises: bool) -> None:
    price = LatePrice(0.05)
    for minute in range(240):
        price.observe(60.0 * minute, 1000.0, 1000.0 * late_share)
    assert (price.factor > 1.2) is rises
    assert (price.factor < 0.8) is not rises
    assert price.share == pytest.approx(late_share)


def test_late_records_that_come_as_aimed_for_leave_the_price_alone() -> None:
    price = LatePrice(0.05)
    for minute in range(600):
        price.observe(60.0 * minute, 1000.0, 1000.0 * price.aim)
    assert price.factor == pytest.approx(1, abs=0.25)


def price_after(late_of_minutes: list[float], *, confidence: float = 0.95) -> LatePrice:
    """The price after minutes of a thousand records, of which some were late."""
    price = LatePrice(0.05, confidence=confidence)
    price.observe(0.0, 0.0, 0.0)
    for minute, late in enumerate(late_of_minutes, start=1):
        price.observe(60.0 * minute, 1000.0, late)
    return price


def test_the_aim_keeps_a_reserve_for_bursts_by_what_they_have_cost_before() -> None:
    evenly = price_after([30.0] * 2880)
    in_bursts = price_after([900.0 if minute % 30 == 0 else 0.0 for minute in range(2880)])
    in_large_bursts = price_after([7200.0 if minute % 240 == 0 else 0.0 for minute in range(2880)])
    assert 0.9 * 0.05 < evenly.aim <= HIGHEST_AIM * 0.05
    assert in_bursts.aim == pytest.approx(evenly.aim, rel=0.05), "bursts of every half hour do not deviate"
    assert in_large_bursts.aim < 0.8 * evenly.aim
    assert price_after([7200.0 if minute % 240 == 0 else 0.0 for minute in range(2880)], confidence=0.99).aim < (
        in_large_bursts.aim
    )
    assert price_after([], confidence=0.5).aim == 0.05, "at even odds nothing is reserved"


def test_what_a_period_has_used_is_taken_from_what_is_left_and_its_reserve_is_released() -> None:
    assert price_after([80.0] * 600).aim < price_after([20.0] * 600).aim
    spent = price_after([200.0] * 400)
    assert spent.aim == pytest.approx(LOWEST_AIM * 0.05)
    assert price_after([200.0] * 400 + [0.0] * 1000).aim > spent.aim
    later = LatePrice(0.05)
    later.restore(json.loads(json.dumps(spent.to_json())))
    assert (later.aim, later.factor) == (spent.aim, spent.factor)


def test_a_limit_that_cannot_be_met_any_more_is_known_before_the_period_ends() -> None:
    """Of a day, 5 % may be late: 72 minutes' worth of records."""
    assert price_after([1000.0] * 70).broken_share() is None
    assert price_after([1000.0] * 80).broken_share() == pytest.approx(80 / 1440)
    assert price_after([1000.0] * 80 + [0.0] * 1360).broken_share() == pytest.approx(80 / 1440)
    assert price_after([1000.0] * 80 + [0.0] * 1500).broken_share() is None, "these records are of another day"


# ------------------------------------------------------------------------------------------------------------ rollout


def stand(**changes: object) -> JobState:
    known: dict[str, object] = {
        "arrived": np.full(12, 1000.0),
        "waiting": 0.0,
        "batch_records": 0.0,
        "batch_started_s": 0.0,
        "ready": 4,
        "planned": 4,
        "pending_s": 30.0,
        "trigger_s": 5.0,
        "next_trigger_s": 0.0,
        "bound_s": 10.0,
    }
    return JobState(**{**known, **changes})  # type: ignore[arg-type]


def future(rate_per_s: float, startup_s: float = 30.0) -> PossibleFutures:
    return PossibleFutures(np.full((1, HORIZON_BINS), 10.0 * rate_per_s), np.ones((1, 8)), np.array([startup_s]))


def late(now: JobState, rate_per_s: float, *sizes: float, startup_s: float = 30.0) -> list[float]:
    rolled = Rollout(now, SERVICE, future(rate_per_s, startup_s), 90.0).roll(np.array(sizes))
    return [float(value) for value in rolled.late[:, 0]]


def test_a_size_that_keeps_up_makes_nothing_late_and_one_that_does_not_makes_all_late() -> None:
    enough, too_few = late(stand(), 100.0, 4.0, 1.0)
    assert enough == 0
    assert too_few > 3000


def test_late_records_are_counted_exactly() -> None:
    """One batch of 1,000 that waits takes 0.5 + 20 s on one instance: those older than 10 s at its end are late."""
    now = stand(waiting=1000.0, ready=1, planned=1)
    rolled = Rollout(now, BatchTimeParameters(0.5, 0.02, 1.0, 1.0), future(0.0), 5.0).roll(np.array([1.0]))
    assert float(rolled.late[0, 0]) == pytest.approx(1000.0, rel=0.01)


def test_a_minute_ahead_is_reported_also_where_sizes_are_compared_by_less() -> None:
    """Where instances start within seconds, what comes in the rest of the minute is done, too, and does not wait."""
    now = stand(trigger_s=1.0, next_trigger_s=0.5)
    rollout = Rollout(now, BatchTimeParameters(0.1, 0.02, 1.0, 1.0), future(100.0, 5.0), 35.0)
    predicted = rollout.predicted(4.0)
    assert 0 < float(predicted.latency_s[0, 0]) < 2.5
    assert 0 < float(predicted.backlog[0, 0]) < 250
    assert float(rollout.result_for(4.0).late[0, 0]) == 0


def test_instances_help_once_they_have_started() -> None:
    soon, late_ones = (late(stand(), 400.0, 12.0, startup_s=startup_s)[0] for startup_s in (5.0, 60.0))
    assert soon < late_ones


def test_one_long_batch_does_not_hide_what_it_makes_late() -> None:
    now = stand(batch_records=20_000.0, batch_started_s=-5.0, arrived=np.full(12, 20_000.0 / 6))
    few, many = late(now, 100.0, 4.0, 16.0)
    assert few > many > 0


def test_what_still_waits_at_the_end_counts_at_the_rate_at_which_records_arrive() -> None:
    now = stand(waiting=30_000.0, arrived=np.full(12, 3000.0))
    giving_up, working_off = late(now, 190.0, 4.0, 12.0)
    assert giving_up > working_off


# ------------------------------------------------------------------------------------------------------------- grades


@pytest.mark.parametrize("error", [0.02, 0.5, 3.0])
def test_nine_of_ten_answers_lie_within_the_stated_interval_however_wrong_it_was(error: float) -> None:
    random, calibrator = np.random.default_rng(5), IntervalCalibrator()
    for tick in range(10_000):
        now = 10.0 * tick
        calibrator.score(now, 1000.0 * float(random.lognormal(0, error)))
        calibrator.predict(now, 900.0, 1000.0, 1100.0)
    assert calibrator.coverage == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("every_s", [1.0, 2.0, 10.0])
def test_a_minute_of_wrong_answers_widens_the_interval_alike_however_often_one_looks(every_s: float) -> None:
    calibrator, ticks = IntervalCalibrator(), round((AHEAD_S + 60.0) / every_s)
    for tick in range(ticks):
        calibrator.score(tick * every_s, 1e9)
        calibrator.predict(tick * every_s, 90.0, 100.0, 110.0)
    stated = calibrator.predict(ticks * every_s, 90.0, 100.0, 110.0)
    assert 15.0 < stated.high - stated.middle < 25.0


def test_what_is_chance_this_time_lies_within_the_interval() -> None:
    stated = IntervalCalibrator().predict(0.0, 1.2, 1.2, 1.2, 1.0)
    assert (stated.low, stated.high) == pytest.approx((0.2, 2.2))


def test_a_calibrator_restores_state_from_before_answered_s_was_saved() -> None:
    saved = IntervalCalibrator().to_json()
    del saved["answered_s"]
    calibrator = IntervalCalibrator()
    calibrator.restore(saved)
    assert calibrator.to_json() == IntervalCalibrator().to_json()


def test_an_answer_that_comes_far_too_late_is_no_answer() -> None:
    calibrator = IntervalCalibrator()
    calibrator.predict(0.0, 1.0, 2.0, 3.0)
    calibrator.score(2 * AHEAD_S, 2.0)
    assert calibrator.coverage is None


# ------------------------------------------------------------------------------------------------------------ patience


@pytest.mark.parametrize(
    ("after_s", "rate_per_s", "undoes"),
    [(0.0, 100.0, True), (120.0, 105.0, True), (121.0, 100.0, False), (60.0, 115.0, False), (60.0, 85.0, False)],
)
def test_a_step_down_is_not_taken_back_soon_under_the_same_load(
    after_s: float, rate_per_s: float, undoes: bool
) -> None:
    scale_in = ScaleInWindow()
    assert not scale_in.would_undo_scale_in(900.0, 100.0), "there was none"
    scale_in.record_scale_in(1000.0, 100.0)
    assert scale_in.would_undo_scale_in(1000.0 + after_s, rate_per_s) is undoes
    scale_in.record_scale_out(1000.0 + after_s, rate_per_s)
    assert not scale_in.would_undo_scale_in(1000.0 + after_s, rate_per_s), "it has been taken back"


@pytest.mark.parametrize(
    ("after_s", "rate_per_s", "undoes"),
    [(0.0, 100.0, True), (120.0, 130.0, True), (120.0, 50.0, True), (121.0, 100.0, False), (10.0, 49.0, False)],
)
def test_a_step_up_stays_unless_the_load_collapses(after_s: float, rate_per_s: float, undoes: bool) -> None:
    scale_in = ScaleInWindow()
    assert not scale_in.would_undo_scale_out(900.0, 100.0), "there was none"
    scale_in.record_scale_out(1000.0, 100.0)
    assert scale_in.would_undo_scale_out(1000.0 + after_s, rate_per_s) is undoes


def test_who_asks_for_a_shorter_time_has_steps_that_stay_shorter() -> None:
    scale_in = ScaleInWindow(15.0)
    scale_in.record_scale_out(1000.0, 100.0)
    assert scale_in.would_undo_scale_out(1030.0, 90.0)
    assert not scale_in.would_undo_scale_out(1031.0, 90.0)


# --------------------------------------------------------------------------------------------------------------- state


def test_every_part_goes_on_from_what_was_saved() -> None:
    load, forecaster = loaded([50.0 + 10 * np.sin(number / 7) for number in range(200)])
    batch_time = BatchTimeModel()
    for records in range(100, 3000, 50):
        batch_time.learn(records, 2, 0.5 + 0.02 * records / 2)

    def again(saved: object) -> dict[str, object]:
        found: dict[str, object] = json.loads(json.dumps(saved))
        return found

    load_again, outlook_again = (
        LoadHistory.from_json(again(load.to_json())),
        ScenarioForecaster.from_json(again(forecaster.to_json())),
    )
    assert outlook_again.scenarios(load_again).counts == pytest.approx(forecaster.scenarios(load).counts)
    assert BatchTimeModel.from_json(again(batch_time.to_json())).coefficients == batch_time.coefficients


@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0, 5.0]), st.integers(0, 12), st.booleans())
def test_loops_and_arrays_roll_batches_forward_alike(seed: int, trigger_s: float, ready: int, is_running: bool) -> None:
    random = np.random.default_rng(seed)
    now = JobState(
        arrived=random.uniform(0, 3000, 15),
        waiting=random.uniform(0, 3000),
        batch_records=random.uniform(1, 5000) if is_running else 0.0,
        batch_started_s=-random.uniform(0, 20),
        ready=ready,
        planned=ready + int(random.integers(3)),
        pending_s=random.uniform(5, 40),
        trigger_s=trigger_s,
        next_trigger_s=random.uniform(0.1, 2),
        bound_s=10.0,
    )
    batch_time = BatchTimeParameters(0.4, 0.02, random.choice([1.0, 0.8, 0.0]), 1.4)
    courses = PossibleFutures(
        random.uniform(0, 6000, (7, 30)), random.uniform(0.8, 1.6, (7, 8)), random.uniform(20, 90, 7)
    )
    rollout, sizes = Rollout(now, batch_time, courses, random.uniform(60, 200)), np.array([1.0, 2.0, 5.0, 13.0])
    looped, in_arrays = rollout.roll(sizes, in_loop=True), rollout.roll(sizes, in_loop=False)
    assert np.array_equal(looped.late, in_arrays.late)
    assert np.array_equal(looped.backlog, in_arrays.backlog)
    assert np.array_equal(looped.latency_s, in_arrays.latency_s)
