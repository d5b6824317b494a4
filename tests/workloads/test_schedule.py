"""When records are due: as many as the integral says, at the times it says, for every caller."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.workloads import Workload, parse_workload
from headgate.workloads.schedule import SHORTEST_S, TOLERANCE_S, RecordSchedule, event_times_ms
from tests.workloads.generated import TIMES, WORKLOADS

SECONDS = st.floats(0.01, 5000)
# What a closed form may be off by, on millions of records.
ROUNDING = 1e-5


@given(WORKLOADS, SECONDS, st.lists(TIMES, max_size=5))
def test_the_counts_of_any_spans_add_up_to_the_rounded_integral(
    workload: Workload, seconds: float, cuts_s: list[float]
) -> None:
    schedule = RecordSchedule(workload, seconds)
    bounds_s = sorted([0.0, *(min(cut_s, seconds) for cut_s in cuts_s), seconds])
    reached = [schedule.due_by(bound_s) for bound_s in bounds_s]
    counts = np.diff(reached)
    assert (counts >= 0).all()
    assert counts.sum() == schedule.total == math.floor(workload.arrivals(0.0, seconds) + 0.5)


@given(WORKLOADS, SECONDS, st.data())
def test_records_are_due_when_the_integral_is(workload: Workload, seconds: float, data: st.DataObject) -> None:
    schedule = RecordSchedule(workload, seconds)
    if schedule.total == 0:
        return
    number = data.draw(st.integers(0, schedule.total - 1))
    (due_s,) = schedule.due_s(number, 1)
    assert 0 <= due_s <= seconds
    # Not earlier and not later, but for the tolerance: a piece as short as can be may bend within.
    tolerance_s = 4 * TOLERANCE_S + SHORTEST_S
    assert workload.arrivals(0.0, max(0.0, due_s - tolerance_s)) <= number + 0.5 + ROUNDING
    assert workload.arrivals(0.0, min(seconds, due_s + tolerance_s)) >= number + 0.5 - ROUNDING
    # And the two questions agree.
    assert schedule.due_by(due_s - 1e-6) <= number or math.isclose(workload.rate_per_s(due_s), 0.0, abs_tol=0.1)
    assert schedule.due_by(due_s + 1e-6) > number or math.isclose(workload.rate_per_s(due_s), 0.0, abs_tol=0.1)


@given(WORKLOADS, SECONDS, st.data())
def test_a_range_is_the_same_for_every_caller(workload: Workload, seconds: float, data: st.DataObject) -> None:
    schedule = RecordSchedule(workload, seconds)
    count = min(schedule.total, 2000)
    whole_s = schedule.due_s(0, count)
    assert (np.diff(whole_s) >= 0).all()
    first = data.draw(st.integers(0, count))
    end = data.draw(st.integers(first, count))
    assert np.array_equal(RecordSchedule(workload, seconds).due_s(first, end - first), whole_s[first:end])


@pytest.mark.parametrize(
    ("spec", "seconds", "due_s"),
    [
        ("constant:10", 0.5, [0.05, 0.15, 0.25, 0.35, 0.45]),
        ("constant:0.4", 2.5, [1.25]),
        ("constant:0.1", 2.0, []),
        # Nothing for 99.5 s, then a burst.
        ("periodic:base=0,peak=4,high=500ms,low=99500ms", 100.0, [99.625, 99.875]),
        # The third record is due when the first burst ends, not when the second begins.
        ("periodic:base=0,peak=5,high=500ms,low=9500ms", 20.0, [9.6, 9.8, 10.0, 19.7, 19.9]),
        # The integral of a ramp is quadratic.
        ("ramp:from=0,to=10,over=10s", 2.9, [1.0, math.sqrt(3), math.sqrt(5), math.sqrt(7)]),
    ],
)
def test_due_times_by_hand(spec: str, seconds: float, due_s: list[float]) -> None:
    schedule = RecordSchedule(parse_workload(spec), seconds)
    assert schedule.due_s(0, schedule.total).tolist() == pytest.approx(due_s, abs=2e-4)


def test_the_last_record_of_a_year_takes_no_longer_than_the_first() -> None:
    schedule = RecordSchedule(parse_workload("sine:mean=2000,amplitude=1500,period=1d"), 365 * 86400.0)
    began_s = time.process_time()
    (due_s,) = schedule.due_s(schedule.total - 1, 1)
    assert due_s == pytest.approx(365 * 86400.0, abs=0.01)
    assert time.process_time() - began_s < 1.0


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (590, 11), (600, 1)])
def test_records_that_there_are_not_are_refused(first: int, count: int) -> None:
    schedule = RecordSchedule(parse_workload("constant:10"), 60.0)
    with pytest.raises(InputError, match="there are 600 from 0 on"):
        schedule.due_s(first, count)


def test_a_schedule_of_no_time_is_refused() -> None:
    with pytest.raises(InputError, match="seconds=0s is not allowed"):
        RecordSchedule(parse_workload("constant:10"), 0.0)


def test_event_time_starts_where_requested() -> None:
    schedule = RecordSchedule(parse_workload("constant:4"), 10.0)
    assert event_times_ms(schedule.due_s(4, 3), start_ms=1_700_000_000_000).tolist() == [
        1_700_000_001_125,
        1_700_000_001_375,
        1_700_000_001_625,
    ]
