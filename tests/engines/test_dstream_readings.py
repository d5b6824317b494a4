"""Readings of a DStream job from what its listener is told, without a JVM."""

from __future__ import annotations

import pytest

from headgate.core.types import Sample
from headgate.engines.dstream_readings import Completed, DStreamReadings, Started, Submitted


def readings() -> DStreamReadings:
    """Batches of 10 s; one that was due at 10 s was done at 14 s, and the executors are warm."""
    made = DStreamReadings(10.0)
    made.on_executors([1.0], [])
    made.on_event(Submitted(10_000, 300))
    made.on_event(Started(10_000, 10.0, 0.0))
    made.on_event(Completed(10_000, 14.0, 300, 0.0, 4.0))
    return made


def sample(made: DStreamReadings, now: float) -> Sample:
    found = made.sample("job", now, 0.5)
    assert found is not None
    return found


def test_nothing_is_known_before_the_first_batch_is_done() -> None:
    made = DStreamReadings(10.0)
    made.on_event(Submitted(10_000, 300))
    assert made.sample("job", 11.0, None) is None


def test_a_batch_tells_records_delay_and_processing_time() -> None:
    made = readings()
    made.on_event(Submitted(20_000, 400))
    made.on_event(Started(20_000, 23.0, 3.0))
    made.on_event(Completed(20_000, 31.0, 400, 3.0, 8.0))
    assert sample(made, 32.0) == Sample(
        "job",
        31.0,
        input_rate_per_s=40.0,
        processed_rate_per_s=50.0,
        backlog=0.0,
        latency_s=11.0,
        processing_time_s=8.0,
        scheduling_delay_s=3.0,
        trigger_interval_s=10.0,
        utilization=0.5,
        warming=False,
    )


def test_batches_that_wait_or_run_are_the_backlog_and_the_newest_tells_what_arrives() -> None:
    made = readings()
    for batch_ms, records in ((20_000, 400), (30_000, 500)):
        made.on_event(Submitted(batch_ms, records))
    made.on_event(Started(20_000, 20.0, 0.0))
    found = sample(made, 25.0)
    assert (found.at_s, found.backlog, found.input_rate_per_s) == (14.0, 900, 50)


@pytest.mark.parametrize(("now", "latency_s"), [(25.0, 4.0), (30.0, 4.0), (31.0, 13.0), (60.0, 42.0)])
def test_a_batch_that_overruns_its_interval_is_told_of_before_it_ends(now: float, latency_s: float) -> None:
    made = readings()
    made.on_event(Submitted(20_000, 400))
    made.on_event(Started(20_000, 20.0, 2.0))
    found = sample(made, now)
    assert found.latency_s == latency_s
    assert (found.processed_rate_per_s is None) is (latency_s > 4)


def test_an_input_that_never_counts_its_records_leaves_rates_unknown() -> None:
    made = DStreamReadings(10.0)
    made.on_event(Submitted(10_000, 0))
    made.on_event(Completed(10_000, 14.0, 0, 0.0, 4.0))
    found = sample(made, 15.0)
    assert (found.input_rate_per_s, found.processed_rate_per_s, found.backlog) == (None, None, None)
    assert found.latency_s == 4.0


def test_an_input_that_counts_tells_of_an_empty_batch() -> None:
    made = readings()
    made.on_event(Submitted(20_000, 0))
    made.on_event(Completed(20_000, 20.1, 0, 0.0, 0.1))
    found = sample(made, 21.0)
    assert (found.input_rate_per_s, found.processed_rate_per_s, found.backlog) == (0.0, None, 0.0)


def batch(batch_ms: int, took_s: float = 4.0) -> Completed:
    return Completed(batch_ms, batch_ms / 1000 + took_s, 300, 0.0, took_s)


def test_batches_are_warming_until_one_ran_with_all_executors_there() -> None:
    made = readings()
    warming = [sample(made, 15.0).warming]
    for batch_ms, joined_s in ((20_000, 22.0), (30_000, 22.0), (40_000, 22.0)):
        made.on_executors([joined_s], [])
        made.on_event(batch(batch_ms))
        warming.append(sample(made, batch_ms / 1000 + 5).warming)
    # The first batch of all, the one in which an executor joined, the first full one with it, and a settled one.
    assert warming == [True, True, True, False]


def test_a_batch_in_which_an_executor_left_is_warming() -> None:
    made = readings()
    made.on_event(batch(20_000))
    assert not sample(made, 25.0).warming
    made.on_executors([1.0], [31.0])
    made.on_event(batch(30_000))
    assert sample(made, 35.0).warming
    made.on_event(batch(40_000))
    assert not sample(made, 45.0).warming
