"""Readings of a DStream job from the events of its listener, without a JVM."""

from __future__ import annotations

import pytest

from headgate.core.types import Sample
from headgate.engines.spark.dstream import CompletedBatch, DStreamReadings, Started, Submitted
from headgate.engines.spark.executors import ExecutorHistory


class Context:
    """A streaming context with batches of 10 s."""

    def __init__(self, late_after_s: float | None = 15.0) -> None:
        self.readings = DStreamReadings(10.0, late_after_s)
        self.executors = ExecutorHistory()
        self.executors.joined_s["1"] = 1.0

    def batch(self, due_s: float, records: int = 300, delay_s: float = 0.0, took_s: float = 4.0) -> None:
        batch_ms = round(1000 * due_s)
        self.readings.on_event(Submitted(batch_ms, due_s, records))
        self.readings.on_event(Started(batch_ms, due_s + delay_s, delay_s))
        self.readings.on_event(CompletedBatch(batch_ms, due_s + delay_s + took_s, records, delay_s, took_s))

    def sample(self, now: float) -> Sample:
        self.readings.update(self.executors, 2)
        found = self.readings.sample("job", now, 1)
        assert found is not None
        return found


def test_nothing_is_known_before_the_first_batch_is_formed() -> None:
    assert DStreamReadings(10.0).sample("job", 9.0, 1) is None


def test_a_batch_tells_records_delay_and_processing_time() -> None:
    context = Context()
    context.batch(10.0)
    context.batch(20.0, records=400, delay_s=3.0, took_s=8.0)
    sample = context.sample(32.0)
    (_, batch) = sample.batches
    assert (batch.records, batch.scheduling_delay_s, batch.processing_time_s) == (400, 3, 8)
    assert batch.latency_s == 21, "its oldest record came when the batch interval began"
    assert (sample.arrived, sample.done, sample.backlog, sample.latency_s) == (700, 700, 0, 0)
    assert sample.input_rate_per_s == 40, "what arrives is known interval by interval, however often somebody looks"


def test_batches_that_wait_or_run_are_the_backlog_and_the_oldest_sets_the_latency() -> None:
    context = Context()
    context.batch(10.0)
    for due_s, records in ((20.0, 400), (30.0, 500)):
        context.readings.on_event(Submitted(round(1000 * due_s), due_s, records))
    context.readings.on_event(Started(20_000, 20.0, 0.0))
    sample = context.sample(35.0)
    assert (sample.backlog, sample.latency_s, sample.running_s) == (900, 25, 15)


def test_the_first_batch_is_seen_while_it_runs() -> None:
    context = Context()
    context.readings.on_event(Submitted(10_000, 10.0, 400))
    context.readings.on_event(Started(10_000, 10.0, 0.0))
    sample = context.sample(60.0)
    assert (sample.backlog, sample.latency_s, sample.batch_ended_s) == (400, 60, None)


@pytest.mark.parametrize(("took_s", "late"), [(4.0, 0), (10.0, 150), (20.0, 300)])
def test_records_are_late_by_when_in_the_interval_they_arrived(took_s: float, late: float) -> None:
    context = Context(late_after_s=15.0)
    context.batch(10.0, took_s=took_s)
    assert context.sample(40.0).late == pytest.approx(late)


def test_an_interval_that_is_longer_than_the_bound_is_not_held_against_the_size() -> None:
    context = Context(late_after_s=8.0)
    context.batch(10.0, took_s=4.0)
    sample = context.sample(20.0)
    assert (sample.late, sample.batches[0].latency_s) == (0, 4)


def test_an_input_that_never_counts_its_records_leaves_them_unknown() -> None:
    context = Context()
    context.batch(10.0, records=0)
    sample = context.sample(15.0)
    assert (sample.arrived, sample.done, sample.backlog) == (None, None, None)
    assert sample.batches[0].processing_time_s == 4.0


def test_a_batch_formed_before_the_first_observation_counts_when_it_is_done() -> None:
    context = Context()
    context.readings.on_event(CompletedBatch(10_000, 14.0, 300, 0.0, 4.0))
    sample = context.sample(15.0)
    assert (sample.arrived, sample.done) == (300, 300)


def test_batches_are_warming_until_one_ran_with_all_executors_there() -> None:
    context = Context()
    context.batch(10.0)
    warming = [context.sample(15.0).warming]
    context.executors.joined_s["2"] = 22.0
    for due_s in (20.0, 30.0, 40.0):
        context.batch(due_s)
        warming.append(context.sample(due_s + 5).warming)
    # The first batch of all, the one in which an executor joined, the first full one with it, and a settled one.
    assert warming == [True, True, True, False]


def test_a_batch_in_which_an_executor_left_is_warming() -> None:
    context = Context()
    for due_s in (10.0, 20.0):
        context.batch(due_s)
    assert not context.sample(25.0).warming
    context.executors.left_s["1"] = 31.0
    context.batch(30.0)
    assert context.sample(35.0).warming
    context.batch(40.0)
    assert not context.sample(45.0).warming
