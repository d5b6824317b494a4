"""When records arrived, as far as that was observed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engines.spark.snapshots import Offsets, RecordsPerOffset, distance, partitions_of
from headgate.engines.spark.sources import MOST_NUMBERS, ArrivalCurve

A, B = ("t", "0"), ("t", "1")


def curve(*points: tuple[float, float, float]) -> ArrivalCurve:
    made = ArrivalCurve()
    for at_s, first, second in points:
        made.add(at_s, {A: first, B: second})
    return made


@pytest.mark.parametrize(
    ("done", "arrived_s"),
    [((0, 0), 0.0), ((100, 0), 0.0), ((50, 20), 5.0), ((100, 20), 10.0), ((100, 120), 10.0), ((200, 120), None)],
)
def test_the_oldest_record_is_found_partition_by_partition(done: tuple[float, float], arrived_s: float | None) -> None:
    made = curve((0, 0, 0), (10, 100, 20), (20, 200, 120))
    assert made.oldest_after({A: done[0], B: done[1]}) == arrived_s


def test_records_from_before_the_first_observation_have_waited_at_least_since_then() -> None:
    made = curve((100, 500, 500), (110, 600, 600))
    assert made.oldest_after({A: 0, B: 0}) == 100
    assert made.reached_by(90) == {}, "nothing is known of what was late by then"


def test_late_reports_change_nothing_and_offsets_do_not_go_back() -> None:
    made = curve((0, 0, 0), (10, 100, 100))
    made.add(5, {A: 60, B: 60})
    assert made.reached_by(5) == {A: 50, B: 50}
    made.add(20, {A: 90, B: 120})
    assert made.newest == {A: 100, B: 120}


def test_a_partition_that_is_new_begins_where_it_is_first_seen() -> None:
    made = ArrivalCurve()
    made.add(0, {A: 0})
    made.add(10, {A: 100, B: 40})
    assert made.reached_by(5) == {A: 50, B: 40}
    assert made.rate_per_s(10) == {A: 10, B: 0}


@given(st.lists(st.tuples(st.floats(0.1, 10), st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=30))
def test_the_arrival_of_an_offset_and_the_offset_of_a_time_agree(steps: list[tuple[float, int, int]]) -> None:
    at_s, first, second, made = 0.0, 0, 0, ArrivalCurve()
    made.add(0.0, {A: 0, B: 0})
    for gap_s, more_first, more_second in steps:
        at_s, first, second = at_s + gap_s, first + more_first, second + more_second
        made.add(at_s, {A: first, B: second})
    middle = made.reached_by(at_s / 2)
    arrived_s = made.oldest_after(middle)
    if arrived_s is not None:
        assert arrived_s >= at_s / 2 - 1e-6
        later = made.reached_by(arrived_s + 1e-3)
        assert distance(middle, later) >= 0


@pytest.mark.parametrize("partitions", [1, 10, 1000])
def test_a_long_life_is_remembered_in_bounded_space(partitions: int) -> None:
    made = ArrivalCurve()
    ticks = 3 * MOST_NUMBERS // partitions + 300
    for tick in range(ticks):
        made.add(float(tick), {("t", str(number)): 10.0 * tick for number in range(partitions)})
    assert len(made._times_s) * partitions <= max(MOST_NUMBERS, 100 * partitions) + partitions
    done: Offsets = {("t", str(number)): ticks / 2 * 10.0 for number in range(partitions)}
    assert made.oldest_after(done) == pytest.approx(ticks / 2, abs=0.1 * ticks)
    made.forget_before(0.75 * ticks)
    assert made.oldest_after(done) == pytest.approx(0.75 * ticks, rel=0.1)


def test_a_source_that_knows_its_own_past_knows_better() -> None:
    made = curve((100, 500, 500), (110, 600, 600))
    made.learn_past([(80, {A: 0, B: 0}), (90, {A: 400, B: 0}), (105, {A: 580, B: 580})])
    assert made.oldest_after({A: 0, B: 0}) == 80
    assert made.oldest_after({A: 400, B: 580}) == 90
    assert made.newest == {A: 580, B: 580}


@pytest.mark.parametrize("past", [[], [(105.0, {A: 0.0, B: 0.0})]])
def test_a_past_that_goes_back_less_far_than_what_was_seen_changes_nothing(past: list[tuple[float, Offsets]]) -> None:
    made = curve((100, 500, 500), (110, 600, 600))
    made.learn_past(past)
    assert made.reached_by(105) == {A: 550, B: 550}


@pytest.mark.parametrize(
    ("offset", "partitions"),
    [
        (None, None),
        ("", None),
        ("not json", None),
        ("7", {(): 7.0}),
        ('{"records": 757}', {("records",): 757.0}),
        ('{"offset": 5, "timestamp": 1700000000000}', {("offset",): 5.0}),
        ('{"orders": {"0": 10}, "clicks": {"0": 5}}', {("orders", "0"): 10.0, ("clicks", "0"): 5.0}),
        ('{"file": "a", "done": true}', None),
    ],
)
def test_offsets_are_the_numbers_in_them(offset: str | None, partitions: dict[tuple[str, ...], float] | None) -> None:
    assert partitions_of(offset) == partitions


@pytest.mark.parametrize(
    ("source", "ratios", "worth"),
    [
        ("kafka", [], 1.0),
        ("kafka", [0.9] * 5, 0.9),
        ("kafka", [2.0] * 5, 1.0),
        ("kafka", [0.9, 0.9, 30.0, 0.9], 0.9),
        ("file", [1000.0] * 3, 1000.0),
    ],
)
def test_what_an_offset_is_worth_is_what_most_batches_say(source: str, ratios: list[float], worth: float) -> None:
    learned = RecordsPerOffset(source)
    for ratio in ratios:
        learned.learn(100 * ratio, 100)
    learned.learn(0, 50)
    learned.learn(50, 0)
    assert learned.value == pytest.approx(worth)
