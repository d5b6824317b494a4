"""One reading of an application: several queries, executors that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headgate.core.types import Sample
from headgate.engines.spark.engine import ApplicationReadings
from headgate.engines.spark.executors import ExecutorHistory
from headgate.engines.spark.snapshots import Executor, QueryProgress, SparkJob
from tests.engines.spark.played import Played, even


def executor(name: str, *, added_s: float = 0.0, removed_s: float | None = None, busy_s: float = 0.0) -> Executor:
    return Executor(
        id=name,
        is_active=removed_s is None,
        cores=1,
        active_tasks=0,
        completed_tasks=int(busy_s > 0),
        cached_blocks=0,
        busy_ms=round(1000 * busy_s),
        added_ms=round(1000 * added_s),
        removed_ms=None if removed_s is None else round(1000 * removed_s),
    )


class Application:
    """Readings that look at played queries."""

    def __init__(self, *queries: Played, chosen: Sequence[str] | None = None, late_after_s: float = 10.0) -> None:
        self.queries = list(queries)
        self.readings = ApplicationReadings(late_after_s, chosen)
        self.executors = ExecutorHistory()
        self.there = [executor("1")]

    def look(self, at_s: float, slots: int = 1) -> Sample | None:
        self.executors.see(at_s, 0.0, self.there)
        queries = [query.query_at(at_s) for query in self.queries]
        jobs = [job for query in self.queries for job in query.jobs_at(at_s)]
        reports = {query.run: query.reports_at(at_s) for query in self.queries}
        self.readings.update(at_s, queries, jobs, reports, self.executors, len(self.there))
        return self.readings.sample("job", at_s, slots)

    def samples(self, *times_s: float) -> list[Sample]:
        return [self.sample(at_s) for at_s in times_s]

    def sample(self, at_s: float, slots: int = 1) -> Sample:
        found = self.look(at_s, slots)
        assert found is not None
        return found


def steady(
    name: str = "steady",
    rate_per_s: float = 10.0,
    took_s: float = 1.0,
    trigger_s: float = 2.0,
    until_s: float = 400.0,
) -> Played:
    played = Played(even(rate_per_s), lambda number, records: took_s, trigger_s, name=name, run=f"run of {name}")
    return played.play(until_s)


def test_there_is_no_reading_without_a_query() -> None:
    assert Application().look(10.0) is None


def test_a_reading_is_of_now() -> None:
    application = Application(steady())
    *_, sample = application.samples(10.2, 15.3, 20.3)
    assert sample.at_s == 20.3
    assert sample.trigger_interval_s == 2.0
    assert [batch.ended_s for batch in sample.batches] == [17.0, 19.0]
    assert sample.batch_ended_s == 19.0
    assert sample.parts == {}


@pytest.mark.parametrize(
    ("case", "joined_s", "left_s", "looks_s", "warming"),
    [
        # A batch of one second starts every other second; the first of a query is always cold.
        ("the first batch of a query", [0.0], [], [1.1], True),
        ("the second one", [0.0], [], [1.1, 3.1], True),
        ("the third one, with records from before", [0.0], [], [1.1, 3.1, 5.1], False),
        ("an executor joined during the batch", [0.0, 6.5], [], [1.1, 3.1, 5.1, 7.1], True),
        ("the first full batch with it", [0.0, 6.5], [], [1.1, 3.1, 5.1, 7.1, 9.1], True),
        ("the second full batch with it", [0.0, 6.5], [], [1.1, 3.1, 5.1, 7.1, 9.1, 11.1], False),
        ("it joined after the batch", [0.0, 7.05], [], [1.1, 3.1, 5.1, 7.1], False),
        ("an executor left during the batch", [0.0], [6.5], [1.1, 3.1, 5.1, 7.1], True),
        ("the batch after it left", [0.0], [6.5], [1.1, 3.1, 5.1, 7.1, 9.1], False),
    ],
)
def test_a_reading_is_warming_while_executors_come_and_go(
    case: str, joined_s: list[float], left_s: list[float], looks_s: list[float], warming: bool
) -> None:
    application = Application(steady())
    found = None
    for at_s in looks_s:
        joined = [executor(f"joined {when_s}", added_s=when_s) for when_s in joined_s if when_s <= at_s]
        gone = [executor(f"went {when_s}", removed_s=when_s) for when_s in left_s if when_s <= at_s]
        application.there = [*joined, *gone]
        found = application.sample(at_s).warming
    assert found is warming, case


def test_queries_add_up_and_the_slowest_sets_the_latency() -> None:
    application = Application(steady("fast", 10.0), steady("slow", 30.0, took_s=15.0))
    *_, sample = application.samples(*(at_s + 0.3 for at_s in range(1, 80, 5)))
    fast, slow = sample.parts["fast"], sample.parts["slow"]
    assert sample.input_rate_per_s == pytest.approx(40.0, rel=0.05)
    assert sample.backlog == (fast.backlog or 0) + (slow.backlog or 0)
    assert sample.latency_s == slow.latency_s
    assert (slow.latency_s or 0) > 15
    assert (fast.latency_s or 0) < 4
    assert {batch.query for batch in sample.batches} <= {"fast", "slow"}


def test_an_hourly_query_does_not_set_the_latency_for_the_whole_hour() -> None:
    hourly = Played(even(1), lambda number, records: 60.0, 3600.0, name="hourly", run="hourly").play(8000)
    application = Application(steady(until_s=4300.0), hourly)
    application.samples(*range(1, 3500, 100))
    latencies_s = [application.sample(at_s + 0.3).latency_s or 0.0 for at_s in range(3500, 4200, 5)]
    assert max(latencies_s) > 30, "while it runs, its records are late"
    assert max(latencies_s[-80:]) < 4


@pytest.mark.parametrize(
    ("chosen", "counted"),
    [(None, {"enrich", "maintenance"}), (["enrich"], {"enrich"}), (["!maintenance"], {"enrich"}), (["other"], set())],
)
def test_queries_can_be_named_or_left_out(chosen: list[str] | None, counted: set[str]) -> None:
    application = Application(steady("enrich"), steady("maintenance"), chosen=chosen)
    sample = application.look(10.3)
    found = set() if sample is None else set(sample.parts) or {"enrich"}
    assert found == counted


def test_one_query_that_ends_a_batch_leaves_the_others_running() -> None:
    application = Application(steady("fast"), steady("slow", took_s=100.0))
    seen = [application.sample(at_s + 0.3) for at_s in range(0, 60, 5)]
    assert all(
        (sample.parts["slow"].running_s or 0) > at_s - 3 for at_s, sample in zip(range(0, 60, 5), seen, strict=True)
    )
    assert seen[-1].running_s == seen[-1].parts["slow"].running_s


def test_a_query_that_ended_no_longer_counts_but_what_it_did_does() -> None:
    fast, slow = steady("fast"), steady("slow", 30.0, took_s=20.0)
    application = Application(fast, slow)
    *_, both = application.samples(1.3, 6.3, 50.3)
    application.queries = [fast]
    alone = application.sample(55.3)
    assert alone.parts == {}
    assert (alone.latency_s or 0) < 4
    assert (alone.done or 0) >= (both.done or 0)
    application.queries = []
    assert application.look(60.3) is None


def test_a_restarted_query_starts_cold() -> None:
    first = steady()
    application = Application(first)
    *_, sample = application.samples(1.3, 3.3, 5.3, 7.3)
    assert not sample.warming
    again = replace(first, run="another run", taken=len([batch for batch in first.batches if batch[1] <= 21.0]))
    application.queries = [again]
    assert application.sample(22.5).warming
    assert application.sample(23.3).warming


@pytest.mark.parametrize(("kind", "knows"), [("kafka", True), ("kafka", False)], ids=["answers", "as reported"])
def test_records_that_arrived_while_a_query_was_down_have_waited_since_then(kind: str, knows: bool) -> None:
    first = replace(steady(), kind=kind)
    application = Application(first)
    application.samples(1.3, 3.3, 5.3, 7.3, 9.3)
    application.queries = []
    application.look(12.3)
    done = first.batches[4]
    again = Played(first.arrivals, lambda number, records: 5.0, 2.0, kind=kind, name=first.name, run="another run")
    again.batches = [done, (40.0, 45.0, done[3], first.arrivals(40.0), first.arrivals(40.0))]
    again.taken = 1
    if not knows:
        again.reports_at = lambda at_s: []  # type: ignore[method-assign]  # a source that does not answer
    application.queries = [again]
    sample = application.sample(41.0)
    truth_s = 41.0 - done[0]
    assert sample.latency_s == pytest.approx(truth_s, abs=1.5)
    assert (sample.late or 0) > 10.0 * 15


def test_utilization_is_integrated_over_whole_batches() -> None:
    """A trigger of 60 s and batches of 12 s: a fifth, at whatever moment somebody looks."""
    application = Application(steady(took_s=12.0, trigger_s=60.0))
    seen = set()
    for at_s in range(1, 400, 5):
        busy_s = sum(batch[1] - batch[0] for batch in application.queries[0].batches if batch[1] <= at_s)
        application.there = [executor("1", busy_s=busy_s)]
        sample = application.sample(float(at_s))
        seen.add((round(sample.busy_s or 0, 6), round(sample.available_s or 0, 6)))
    ordered = sorted(seen)
    shares = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(ordered[-30:], ordered[-29:], strict=False) if b[1] > a[1]]
    total = (ordered[-1][0] - ordered[0][0]) / (ordered[-1][1] - ordered[0][1])
    assert total == pytest.approx(0.2, abs=0.03)
    assert shares


def test_what_can_be_done_side_by_side_limits_the_useful_size() -> None:
    application = Application(steady(took_s=1.8))
    assert application.sample(10.5).useful_instances == 4
    assert application.sample(12.5, slots=3).useful_instances == 2


def test_numbers_that_the_job_computes_itself_expire() -> None:
    application = Application(steady())
    query = application.queries[0].query_at(5.3)
    observed = {"observedMetrics": {"quality": {"errors": 3}}}
    query = replace(
        query, progresses=tuple(replace(progress, body={**progress.body, **observed}) for progress in query.progresses)
    )
    application.readings.update(5.3, [query], [], {}, application.executors, 1)
    assert application.readings.observed(30.0) == {("quality", "errors"): 3.0}
    assert application.readings.observed(70.0) == {}


def test_jobs_of_others_are_not_taken_for_a_batch() -> None:
    application = Application(steady())
    application.sample(10.3)
    query = application.queries[0].query_at(11.5)
    other = SparkJob(99, "a notebook", 11.0, 50, 10, 50)
    application.readings.update(11.5, [query], [other], {}, application.executors, 1)
    sample = application.readings.sample("job", 11.5, 1)
    assert sample is not None
    assert (sample.running_s, sample.useful_instances) == (None, 4)


def test_a_batch_tells_of_the_executors_that_were_there_when_it_ended() -> None:
    """One that comes after it, and before anybody looks, is no part of it."""
    application = Application(steady())
    application.sample(10.2)
    application.there.append(executor("2", added_s=13.4))
    sample = application.sample(15.5)
    assert [(batch.ended_s, batch.instances) for batch in sample.batches] == [(11.0, 1), (13.0, 1), (15.0, 2)]


@pytest.mark.parametrize(("rows", "has_rows"), [((), False), ((0, 0), False), ((0, 3), True)])
def test_a_progress_without_rows_says_nothing_of_how_wide_a_batch_is(rows: tuple[int, ...], has_rows: bool) -> None:
    assert QueryProgress(1.0, {"sources": [{"numInputRows": count} for count in rows]}).has_rows is has_rows
