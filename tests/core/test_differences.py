"""Rates are differences of counters, so a lost reading costs resolution and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.types import Batch, Instances, Observation, Sample
from headgate.core.window import History, busy_span_s, completed
from tests.core.building import JOB

BEFORE = Sample("job", 0.0, arrived=1000, done=900, emitted=450, busy_s=50, available_s=100)


def test_rates_are_differences_of_counters() -> None:
    after = completed(Sample("job", 10.0, arrived=1500, done=1300, emitted=650, busy_s=56, available_s=120), BEFORE)
    assert (after.input_rate_per_s, after.output_rate_per_s, after.backlog) == (50, 20, 200)
    assert after.utilization == pytest.approx(0.3)
    assert after.selectivity == 0.5


def test_what_an_engine_says_itself_stays() -> None:
    given = Sample("job", 10.0, arrived=1500, done=1300, input_rate_per_s=7.0, backlog=3.0)
    assert completed(given, BEFORE) == given


@pytest.mark.parametrize("before", [None, Sample("job", 10.0, arrived=1000), Sample("job", 0.0, arrived=2000)])
def test_without_a_span_or_after_a_counter_reset_there_is_no_rate(before: Sample | None) -> None:
    assert completed(Sample("job", 10.0, arrived=1500), before).input_rate_per_s is None


def test_between_two_batches_the_newest_one_is_still_the_newest_that_is_known() -> None:
    ended = completed(Sample("job", 10.0, batches=(Batch(2.0, 8.0, 300, 0.0, trigger_interval_s=1.0),)), None)
    measured = [ended.processed_rate_per_s, ended.processing_time_s, ended.scheduling_delay_s, ended.trigger_interval_s]
    assert measured == [50, 6, 1, 1]
    later = completed(Sample("job", 15.0, batch_ended_s=8.0), ended)
    assert (later.processed_rate_per_s, later.processing_time_s, later.measured_s) == (50, 6, 8)


QUIET = Sample("job", 20.0, arrived=300, done=300, backlog=0.0, batch_ended_s=8.0)


def test_a_job_that_has_nothing_to_do_is_measured_now_and_would_be_through_at_once() -> None:
    """Otherwise the last batch of a job whose source went quiet would keep it at its size for ever."""
    ended = completed(Sample("job", 10.0, arrived=300, done=300, batches=(Batch(2.0, 8.0, 300, 0.0),)), None)
    quiet = completed(QUIET, ended)
    assert quiet.is_idle
    assert (quiet.measured_s, quiet.processing_time_s, quiet.scheduling_delay_s) == (20, 0, 0)
    assert quiet.processed_rate_per_s is None


@pytest.mark.parametrize(
    "changes",
    [{"running_s": 3.0}, {"backlog": 1.0}, {"arrived": 301}, {"batches": (Batch(9.0, 10.0, 5),)}],
    ids=["a batch runs", "a record waits", "a record came", "a batch has ended"],
)
def test_a_job_that_has_something_to_do_is_not_idle(changes: dict[str, Any]) -> None:
    ended = completed(Sample("job", 10.0, arrived=300, done=300, batches=(Batch(2.0, 8.0, 300, 0.0),)), None)
    busy = completed(dataclasses.replace(QUIET, **changes), ended)
    assert not busy.is_idle
    assert busy.measured_s == 8
    assert (busy.processing_time_s or 0.0) > 0


def test_queries_that_run_side_by_side_share_the_slots() -> None:
    """Each got through 10/s while it ran, but they ran at the same time: together they make 20/s, not 40."""
    batches = (Batch(0.0, 10.0, 100), Batch(0.0, 10.0, 100), Batch(0.0, 5.0, 0))
    assert completed(Sample("job", 10.0, batches=batches), None).processed_rate_per_s == 20
    assert busy_span_s([]) == 0


def test_utilization_is_that_of_whole_batches() -> None:
    """A trigger of 60 s with batches of 12 s: a fifth, at whatever moment somebody looks."""
    history, seen = History(JOB), []
    for tick in range(60):
        at_s = 5.0 * tick
        cycles = (at_s - 12.0) // 60 + 1 if at_s >= 12 else 0
        sample = Sample("job", at_s, busy_s=12 * cycles, available_s=60 * cycles, batch_ended_s=60 * cycles - 48)
        history.observe(Observation(at_s, {"job": sample}, {"job": Instances(1, 1, 1)}))
        seen.append(history.observations[-1].samples["job"].utilization)
    assert {value for value in seen if value is not None} == {0.2}


@given(st.lists(st.floats(0.1, 20), min_size=2, max_size=30), st.data())
def test_a_lost_reading_does_not_change_what_the_rates_add_up_to(gaps_s: list[float], data: st.DataObject) -> None:
    at_s, arrived, readings = 0.0, 0.0, []
    for gap_s in gaps_s:
        at_s, arrived = at_s + gap_s, arrived + data.draw(st.floats(0, 100))
        readings.append(Sample("job", at_s, arrived=arrived))
    retained = [readings[0], *(reading for reading in readings[1:-1] if data.draw(st.booleans())), readings[-1]]
    total, before = 0.0, retained[0]
    for reading in retained[1:]:
        rate = completed(reading, before).input_rate_per_s
        assert rate is not None
        total, before = total + rate * (reading.at_s - before.at_s), reading
    assert total == pytest.approx(readings[-1].arrived - readings[0].arrived, abs=1e-6)  # type: ignore[operator]


def test_the_worst_latency_since_the_last_reading_is_that_of_its_batches_too() -> None:
    """Just after a batch has ended nothing old waits, but its records have waited."""
    sample = Sample("job", 30.0, latency_s=2.0, batches=(Batch(8.0, 28.0, 100, 5.0), Batch(28.0, 29.0, 0, 1.0)))
    assert sample.worst_latency_s == 23
    assert dataclasses.replace(sample, batches=()).worst_latency_s == 2
    assert Sample("job", 0.0).worst_latency_s is None
