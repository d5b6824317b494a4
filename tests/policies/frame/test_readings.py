"""What several policies ask of readings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Sample
from headgate.core.units import plain
from headgate.core.window import History
from headgate.policies.frame.readings import (
    busy_share,
    is_steady,
    objective_status,
    reading_of,
    readings_over,
    work_pressure,
)
from tests.core.building import JOB, decision, history, observation


@pytest.mark.parametrize(
    ("sample", "share"),
    [
        (Sample("job", 0), None),
        (Sample("job", 0, utilization=0.4), 0.4),
        (Sample("job", 0, utilization=0.0), 0.0),
        (Sample("job", 0, processing_time_s=15, trigger_interval_s=10, utilization=0.4), 1.5),
        (Sample("job", 0, processing_time_s=15, utilization=0.4), 0.4),
        (Sample("job", 0, processing_time_s=15, trigger_interval_s=0, utilization=0.4), 0.4),
        (Sample("job", 0, processing_time_s=15), None),
        (Sample("job", 0, trigger_interval_s=10), None),
    ],
)
def test_the_busy_share_is_batch_time_over_interval_or_else_utilization(sample: Sample, share: float | None) -> None:
    assert busy_share(sample) == share
    assert reading_of(sample, "busy_share") == share


def test_a_metric_is_read_by_any_name() -> None:
    sample = Sample("job", 0, latency_s=2.0, metrics={"heap": 0.5})
    assert [reading_of(sample, name) for name in ("latency_s", "heap", "unheard-of")] == [2.0, 0.5, None]


def every_10_s(*warming: float) -> list[Sample]:
    return [Sample("job", at_s, warming=at_s in warming) for at_s in range(0, 101, 10)]


@pytest.mark.parametrize(
    ("duration_s", "changed_s", "warming", "expected"),
    [
        (0, None, (), [100]),
        (20, None, (), [80, 90, 100]),
        (25, None, (), [70, 80, 90, 100]),
        (100, None, (), list(range(0, 101, 10))),
        (101, None, (), []),
        (20, 75, (), [80, 90, 100]),
        (20, 80, (), []),
        (20, None, (90,), [80, 100]),
        (20, None, (80,), []),
    ],
)
def test_a_period_is_reported_by_the_readings_that_span_it_at_the_present_size(
    duration_s: float, changed_s: float | None, warming: tuple[float, ...], expected: list[float]
) -> None:
    window = history(every_10_s(*warming))
    if changed_s is not None:
        window.record(decision(changed_s, 1, 2))
    assert [sample.at_s for sample in readings_over(window, "job", duration_s)] == expected


def test_no_reading_tells_of_no_period() -> None:
    window = History(JOB)
    window.observe(observation(0))
    assert readings_over(window, "job", 0) == []


def test_a_reading_rarer_than_the_period_still_tells_of_it() -> None:
    window = history([Sample("job", 0), Sample("job", 300)])
    assert len(readings_over(window, "job", 60)) == 2


@pytest.mark.parametrize(
    ("objective", "sample", "reason"),
    [
        ("latency < 10s", Sample("job", 0, latency_s=12.34), "latency 12.3 s is over the 10s bound"),
        ("latency < 10s", Sample("job", 0, latency_s=1), "latency 1 s is within the 10s bound"),
        ("latency < 10s", Sample("job", 0), "the latency is not known"),
        ("slow < 5%", Sample("job", 0, input_rate_per_s=100, backlog=7), "7% slow records are over the 5% bound"),
        ("slow < 5%", Sample("job", 0, input_rate_per_s=100, backlog=0), "0% slow records are within the 5% bound"),
        ("slow < 5%", Sample("job", 0, input_rate_per_s=0, backlog=7), "7 records wait although none arrive"),
        ("slow < 5%", Sample("job", 0, backlog=7), "the share of slow records is not known"),
        (
            "throughput >= 95%",
            Sample("job", 0, input_rate_per_s=100, processed_rate_per_s=80, backlog=9),
            "the job gets through 80 records/s, which is less than arrive",
        ),
        ("throughput >= 95%", Sample("job", 0, backlog=0), "the job gets through what arrives"),
        ("throughput >= 95%", Sample("job", 0), "it is not known whether the job gets through what arrives"),
    ],
)
def test_a_reading_is_reported_against_the_objective(objective: str, sample: Sample, reason: str) -> None:
    words, numbers = objective_status(parse_objective(objective).slo, sample)
    assert words == reason
    assert all(number is None or abs(float(number)) < float("inf") for number in numbers.values())


def test_what_is_reported_of_the_latency_is_what_it_was_judged_by() -> None:
    sample = Sample("job", 10, latency_s=2, batches=(Batch(0, 9, 10, oldest_s=-4),))
    words, numbers = objective_status(parse_objective("latency < 10s").slo, sample)
    assert words == "latency 13 s is over the 10s bound"
    assert numbers["latency_s"] == 13


@pytest.mark.parametrize(
    ("objective", "sample", "pressure"),
    [
        ("latency < 10s", Sample("job", 0, latency_s=7, trigger_interval_s=5), 0.4),
        ("latency < 10s", Sample("job", 0, latency_s=10, trigger_interval_s=5), 1.0),
        ("latency < 10s", Sample("job", 0, latency_s=3, trigger_interval_s=5), 0.0),
        ("latency < 10s", Sample("job", 0, latency_s=7), 0.7),
        # A trigger that is longer than the bound is not in the latency.
        ("latency < 10s", Sample("job", 0, latency_s=7, trigger_interval_s=60), 0.7),
        ("latency < 10s", Sample("job", 0, trigger_interval_s=5), None),
        ("slow < 5%", Sample("job", 0, input_rate_per_s=100, backlog=4, trigger_interval_s=5), 0.8),
    ],
)
def test_the_wait_for_a_trigger_says_nothing_of_the_work(
    objective: str, sample: Sample, pressure: float | None
) -> None:
    assert work_pressure(parse_objective(objective).slo, sample) == pytest.approx(pressure)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (410, "410"), (88.14, "88.1"), (0.5, "0.5"), (1234567.8, "1234568"), (1e-9, "0"), (-2.5, "-2.5")],
)
def test_numbers_are_written_plainly(number: float, text: str) -> None:
    assert plain(number) == text


def waiting(
    at_s: float,
    delay_s: float,
    *,
    latency_s: float | None = None,
    warming: bool = False,
    offered: float | None = None,
) -> Sample:
    """What is got through is 100/s, where it is known what is offered."""
    spent_s = delay_s + 1 if latency_s is None else latency_s
    sample = Sample("job", at_s, latency_s=spent_s, scheduling_delay_s=delay_s, warming=warming)
    return sample if offered is None else replace(sample, input_rate_per_s=offered, processed_rate_per_s=100.0)


@pytest.mark.parametrize(
    ("readings", "steady"),
    [
        ([waiting(20, 0)], True),
        ([waiting(20, 0, warming=True)], False),
        ([waiting(11, 0, latency_s=2)], False),
        ([waiting(20, 9), waiting(25, 4)], False),
        ([waiting(20, 4), waiting(25, 9)], True),
        ([waiting(20, 4, offered=90), waiting(25, 9, offered=110)], True),
        ([waiting(20, 4, offered=90), waiting(25, 9, offered=90)], False),
        ([waiting(20, 9), waiting(25, 0)], True),
        ([Sample("job", 20, backlog=90), Sample("job", 25, backlog=40)], False),
        ([Sample("job", 20, backlog=90), Sample("job", 25, backlog=0)], True),
    ],
    ids=[
        "an ordinary one",
        "one made while warming",
        "one of records that came in before the change",
        "one while a queue shrinks",
        "one while a queue grows, and what is got through is not known",
        "one while a queue grows because more arrives than is got through",
        "one while a queue grows although less arrives than is got through",
        "one when the queue is gone",
        "one while a backlog shrinks, where delays are not known",
        "one when that backlog is gone",
    ],
)
def test_a_reading_is_steady_once_the_job_has_recovered_from_a_change_of_size(
    readings: list[Sample], steady: bool
) -> None:
    seen = History(JOB)
    seen.observe(observation(0, 2))
    seen.record(decision(9, 2, 3))
    seen.observe(observation(10, 3))
    for reading in readings:
        seen.observe(observation(reading.at_s, 3, sample=reading))
    assert is_steady(seen, "job", readings[-1]) is steady


@pytest.mark.parametrize(
    ("ended_s", "latency_s", "steady"),
    [(17.0, 3.0, False), (19.0, 3.0, True), (19.0, 15.0, False)],
    ids=["records of the batch came before the change", "all came after it", "records wait that came before it"],
)
def test_a_batch_takes_records_from_the_trigger_before_it_on(ended_s: float, latency_s: float, steady: bool) -> None:
    seen = History(JOB)
    seen.observe(observation(0, 2))
    seen.record(decision(9, 2, 3))
    seen.observe(observation(10, 3))
    sample = Sample(
        "job",
        20,
        latency_s=latency_s,
        batch_ended_s=ended_s,
        processing_time_s=3,
        scheduling_delay_s=0,
        trigger_interval_s=5,
    )
    seen.observe(observation(20, 3, sample=sample))
    assert is_steady(seen, "job", sample) is steady
