"""Readings from progress events: arrivals and lag by offsets, delays by what the oldest record waited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.engines.spark_progress import QueryTracker

TRIGGER_S = 10.0


def progress(
    *,
    took_s: float,
    rows: int,
    start: object = None,
    end: object = None,
    latest: object = None,
) -> dict[str, Any]:
    """One progress event as Spark writes it; offsets are JSON in a string, as every source has its own."""

    def offset(value: object) -> str | None:
        return None if value is None else json.dumps(value)

    source = {
        "numInputRows": rows,
        "startOffset": offset(start),
        "endOffset": offset(end),
        "latestOffset": offset(latest),
    }
    return {"durationMs": {"triggerExecution": round(took_s * 1000)}, "sources": [source]}


def counted(took_s: float, start: int | None, end: int, latest: int) -> dict[str, Any]:
    """A batch of a source whose offsets count records."""
    return progress(
        took_s=took_s,
        rows=end - (start or 0),
        start=None if start is None else {"records": start},
        end={"records": end},
        latest={"records": latest},
    )


def test_arrivals_are_counted_by_offsets_and_not_by_what_was_admitted() -> None:
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(counted(2.0, None, 100, 100), received_s=12.0)
    batch = tracker.on_progress(counted(2.0, 100, 150, 400), received_s=22.0)
    assert batch.records == 50
    assert batch.input_rate_per_s == pytest.approx(30.0)  # 300 more between the starts at 10 and at 20
    assert batch.processed_rate_per_s == pytest.approx(25.0)
    assert batch.backlog == 250


def test_a_job_that_keeps_up_has_no_scheduling_delay() -> None:
    tracker = QueryTracker(TRIGGER_S)
    for number in range(5):
        first = 100 * number or None
        batch = tracker.on_progress(counted(3.0, first, 100 * number + 100, 100 * number + 100), 13.0 + 10 * number)
        assert batch.scheduling_delay_s == 0
        assert batch.latency_s == pytest.approx(3.0)


def test_the_delay_is_what_the_oldest_record_waited_beyond_one_trigger_interval() -> None:
    """10 records arrive per second and 5 are admitted: the batch at 30 s starts with the record that came at 15 s."""
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(counted(1.0, None, 50, 100), 11.0)
    tracker.on_progress(counted(1.0, 50, 100, 200), 21.0)
    batch = tracker.on_progress(counted(1.0, 100, 150, 300), 31.0)
    # Record 100 was the newest one at 10 s: it had waited 20 s at 30 s, 10 of which are the trigger's.
    assert batch.scheduling_delay_s == pytest.approx(10.0)
    assert batch.latency_s == pytest.approx(11.0)
    batch = tracker.on_progress(counted(1.0, 150, 200, 400), 41.0)
    assert batch.scheduling_delay_s == pytest.approx(15.0)  # record 150 came at 15 s


def test_records_that_were_there_before_the_first_batch_have_waited_since_then_at_least() -> None:
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(counted(1.0, None, 100, 1000), 1.0)
    batch = tracker.on_progress(counted(1.0, 100, 200, 1000), 41.0)
    assert batch.scheduling_delay_s == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("source", "events"),
    [
        ("no latest offset (files)", [progress(took_s=1, rows=50, start={"logOffset": 1}, end={"logOffset": 2})]),
        ("offsets that are no record counts (rate)", [progress(took_s=1, rows=50, start=3, end=5, latest=5)]),
        ("offsets with words", [progress(took_s=1, rows=50, start={"f": "a"}, end={"f": "b"}, latest={"f": "c"})]),
        ("a latest offset that is behind", [counted(1.0, 50, 100, 90)]),
        ("more gaps than records", [progress(took_s=1, rows=40, start={"p": 0}, end={"p": 100}, latest={"p": 100})]),
    ],
)
def test_without_offsets_that_count_records_the_admitted_rate_is_all_there_is(
    source: str, events: list[dict[str, Any]]
) -> None:
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(progress(took_s=1.0, rows=50), 11.0)
    for event in events:
        batch = tracker.on_progress(event, 21.0)
        assert batch.backlog is None, source
        assert batch.input_rate_per_s == pytest.approx(batch.records / 10.0)
        assert batch.scheduling_delay_s == 0


def test_a_batch_that_could_not_start_in_time_is_late_also_without_offsets() -> None:
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(progress(took_s=25.0, rows=500), 35.0)
    batch = tracker.on_progress(progress(took_s=5.0, rows=100), 40.0)
    assert batch.scheduling_delay_s == pytest.approx(15.0)  # 25 s after the one before instead of 10


def test_kafka_offsets_add_up_over_topics_and_partitions_and_may_have_gaps() -> None:
    tracker = QueryTracker(0.0)
    one = {"orders": {"0": 10, "1": 20}, "clicks": {"0": 5}}
    two = {"orders": {"0": 30, "1": 40}, "clicks": {"0": 15}}
    latest = {"orders": {"0": 30, "1": 50}, "clicks": {"0": 15}}
    tracker.on_progress(progress(took_s=1, rows=35, end=one, latest=one), 1.0)
    batch = tracker.on_progress(progress(took_s=1, rows=48, start=one, end=two, latest=latest), 6.0)
    assert batch.backlog == 10
    assert batch.input_rate_per_s == pytest.approx(12.0)


def test_an_idle_trigger_means_that_nothing_waits() -> None:
    tracker = QueryTracker(TRIGGER_S)
    tracker.on_progress(counted(2.0, None, 100, 300), 12.0)
    batch = tracker.on_idle(40.0)
    assert (batch.records, batch.backlog, batch.latency_s, batch.input_rate_per_s) == (0, 0.0, 0.0, 0.0)
    assert batch.ended_s == 40.0


def test_several_sources_are_one_load() -> None:
    tracker = QueryTracker(TRIGGER_S)
    first, second = (counted(2.0, None, 100, 100), counted(2.0, 100, 200, 260))
    for event in (first, second):
        event["sources"] = event["sources"] * 2
    tracker.on_progress(first, 12.0)
    batch = tracker.on_progress(second, 22.0)
    assert (batch.records, batch.backlog) == (200, 120)
    assert batch.input_rate_per_s == pytest.approx(32.0)
