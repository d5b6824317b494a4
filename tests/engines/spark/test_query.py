"""The state of a query at any moment, against the truth: between batches, inside long ones, whatever the idiom."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.types import Sample
from headgate.engines.spark.query_readings import QueryReadings
from headgate.engines.spark.snapshots import Inside, QuerySource, SourceReport
from tests.engines.spark.played import Arrivals, Played, even


def samples_of(
    played: Played,
    times_s: list[float],
    *,
    answers: bool = True,
    late_after_s: float | None = 10.0,
    with_jobs: bool = True,
) -> list[Sample]:
    readings = QueryReadings(played.query_at(times_s[0]), times_s[0], late_after_s)
    played.taken = 0
    seen = []
    for at_s in times_s:
        jobs = played.jobs_at(at_s) if with_jobs else []
        readings.update(at_s, played.query_at(at_s), jobs, played.reports_at(at_s) if answers else ())
        seen.append(readings.sample(at_s))
    return seen


def ticks(until_s: float, every_s: float = 5.0, since_s: float = 0.3) -> list[float]:
    return [since_s + every_s * number for number in range(int((until_s - since_s) / every_s) + 1)]


def rising(at_s: float) -> list[int]:
    """100/s, then ten times as much within 40 s, from 30 s on."""
    grown_s = max(0.0, min(40.0, at_s - 30.0))
    records = 100 * at_s + 900 * (grown_s * grown_s / 80 + max(0.0, at_s - 70.0))
    return [int(records / 8)] * 8


@pytest.mark.parametrize(
    ("case", "arrivals", "took_s", "trigger_s"),
    [
        ("short batches", even(100), 0.8, 2.0),
        ("batches of 25 s under rising load", rising, 25.0, 2.0),
        ("as fast as possible", even(100), 3.0, 0.0),
        ("a long trigger", even(100), 3.0, 20.0),
    ],
)
def test_what_is_read_is_the_truth_at_any_moment(
    case: str, arrivals: Arrivals, took_s: float, trigger_s: float
) -> None:
    played = Played(arrivals, lambda number, records: took_s, trigger_s).play(120.0)
    times_s = ticks(120.0)
    for at_s, sample in zip(times_s[2:], samples_of(played, times_s, late_after_s=60.0)[2:], strict=True):
        assert sample.backlog == pytest.approx(played.backlog_at(at_s), rel=0.02, abs=8), (case, at_s)
        assert sample.latency_s == pytest.approx(played.oldest_wait_at(at_s), rel=0.1, abs=0.6), (case, at_s)
        rate = (sum(arrivals(at_s)) - sum(arrivals(at_s - 5))) / 5
        assert sample.input_rate_per_s == pytest.approx(rate, rel=0.1), (case, at_s)
        assert sample.age_s == 0


def test_without_an_answering_source_arrivals_continue_at_the_observed_rate_and_the_age_is_given() -> None:
    played = Played(even(100), lambda number, records: 25.0).play(120.0)
    times_s = ticks(120.0)
    for at_s, sample in zip(times_s[6:], samples_of(played, times_s, answers=False)[6:], strict=True):
        assert sample.backlog == pytest.approx(played.backlog_at(at_s), rel=0.1, abs=110)
        assert sample.age_s == pytest.approx(at_s - max(batch[0] for batch in played.batches if batch[0] <= at_s))


@pytest.mark.parametrize(("unanswered_s", "taken_to_come"), [(1.0, 0.0), (10.0, 1000.0)])
def test_a_source_that_does_not_answer_once_has_not_gone_on_and_one_that_is_away_has(
    unanswered_s: float, taken_to_come: float
) -> None:
    """What was counted stays counted: after the load has ended, nothing would ever make up for it."""
    played = Played(even(100), lambda number, records: 25.0).play(60.0)
    readings = QueryReadings(played.query_at(0.3), 0.3, 10.0)

    def look(at_s: float, reports: list[SourceReport]) -> Sample:
        readings.update(at_s, played.query_at(at_s), played.jobs_at(at_s), reports)
        return readings.sample(at_s)

    known = [look(at_s, played.reports_at(at_s)) for at_s in ticks(32.0, 1.0)][-1]
    without = look(known.at_s + unanswered_s, [])
    assert without.age_s == pytest.approx(unanswered_s)
    assert (without.arrived or 0.0) - (known.arrived or 0.0) == pytest.approx(taken_to_come, rel=0.05, abs=1e-9)


def test_an_idle_job_has_nothing_waiting_however_often_somebody_looks() -> None:
    """Default trigger, source gone quiet: Spark says now and then that a trigger is active, and no batch runs."""
    played = Played(lambda at_s: [int(10 * min(at_s, 20.0))] * 4, lambda number, records: 0.5, trigger_s=0.0).play(
        300.0
    )
    for answers in (True, False):
        played.taken = 0
        for sample in samples_of(played, ticks(300.0), answers=answers)[5:]:
            assert (sample.latency_s, sample.backlog, sample.running_s) == (0, 0, None)


def test_without_a_row_limit_what_waits_is_seen_though_the_batch_has_admitted_it() -> None:
    """One executor that takes twice as long as it has: the backlog grows, and so does the latency."""
    played = Played(even(100), lambda number, records: 0.02 * records).play(400.0)
    seen = samples_of(played, ticks(400.0), late_after_s=10.0)
    assert seen[-1].backlog is not None
    assert seen[-1].backlog > 5000
    latencies_s = [sample.latency_s or 0.0 for sample in seen]
    assert max(latencies_s[-20:]) > 3 * max(latencies_s[:10])
    assert (seen[-1].late or 0) > 0.5 * (seen[-1].arrived or 0)


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_whose_tasks_are_all_done_is_done_though_spark_has_not_reported_it(committed: bool) -> None:
    """Between the last task and the report of a batch some tenths of a second pass."""
    played = Played(even(100), lambda number, records: 10.0, trigger_s=0.0).play(60.0)
    readings = QueryReadings(played.query_at(0.3), 0.3, 10.0)
    played.taken = 0
    running = Sample("none", 0.0)
    for at_s in ticks(29.0, 1.0):
        readings.update(at_s, played.query_at(at_s), played.jobs_at(at_s), played.reports_at(at_s))
        running = readings.sample(at_s)
    started_s, ended_s, _, end, _ = next(batch for batch in played.batches if batch[0] <= 29.0 < batch[1])
    at_s = ended_s + 0.2
    later = replace(played.query_at(at_s - 0.3), batch_id=2)
    if committed:
        later = replace(later, committed=later.end)
    readings.update(at_s, later, [], played.reports_at(at_s))
    sample = readings.sample(at_s)
    assert sample.backlog == pytest.approx(100 * at_s - sum(end), abs=8)
    assert sample.latency_s == pytest.approx(at_s - started_s, abs=0.5)
    assert (sample.done or 0) - (running.done or 0) == pytest.approx(played.done_at(at_s) - played.done_at(28.3), abs=8)


@pytest.mark.parametrize(("idiom", "reads"), [("isEmpty() and a write", 1.08), ("two writes", 2.0), ("one write", 1.0)])
def test_common_foreachbatch_idioms_do_not_blind_it(idiom: str, reads: float) -> None:
    played = Played(even(50), lambda number, records: 4.0, limit=100, reads=reads).play(200.0)
    sample = samples_of(played, ticks(200.0))[-1]
    assert sample.latency_s == pytest.approx(played.oldest_wait_at(sample.at_s), rel=0.1), idiom
    assert sample.backlog == pytest.approx(played.backlog_at(sample.at_s), rel=0.05), idiom
    assert sample.input_rate_per_s == pytest.approx(50, rel=0.05), idiom


def test_one_odd_batch_is_an_outlier_and_no_amnesia() -> None:
    played = Played(even(50), lambda number, records: 4.0, limit=100).play(200.0)
    expected = samples_of(played, ticks(200.0))[-1]
    played.taken = 0
    readings = QueryReadings(played.query_at(0.3), 0.3, 10.0)
    played.taken = 0
    sample = Sample("none", 0.0)
    for at_s in ticks(200.0):
        query = played.query_at(at_s)
        if 100 < at_s <= 105:
            for progress in query.progresses:
                progress.body["sources"][0]["numInputRows"] *= 30
        readings.update(at_s, query, played.jobs_at(at_s), played.reports_at(at_s))
        sample = readings.sample(at_s)
    assert (sample.latency_s, sample.backlog) == (expected.latency_s, expected.backlog)


def test_transactional_topics_count_records_and_not_their_markers() -> None:
    """A tenth of the offsets holds no record: arrivals, what is done and what waits are in one unit."""
    played = Played(even(100), lambda number, records: 1.0, reads=0.9).play(120.0)
    seen = samples_of(played, ticks(120.0))
    before, after = seen[-11], seen[-1]
    assert after.input_rate_per_s == pytest.approx(90, rel=0.02)
    assert (after.arrived or 0) - (before.arrived or 0) == pytest.approx(50 * 90, rel=0.01)
    assert (after.done or 0) - (before.done or 0) == pytest.approx(50 * 90, rel=0.03)


def test_the_first_batch_is_seen_while_it_runs() -> None:
    """4,000 records wait, and the first batch takes 100 s."""
    played = Played(lambda at_s: [1000] * 4, lambda number, records: 100.0).play(90.0)
    at_start, later = samples_of(played, [0.3, 60.3])
    assert (at_start.backlog, later.backlog) == (4000, 2000)
    assert later.latency_s == pytest.approx(60.0, abs=0.5)
    assert later.running_s == pytest.approx(60.3)
    assert later.batch_ended_s is None
    assert later.late == 4000


@pytest.mark.parametrize(
    ("begins", "waiting"), [("latest", 0), (None, 0), ("earliest", 4000), ('{"events":{"0":900,"1":-2}}', 3100)]
)
def test_what_a_topic_held_before_counts_only_if_the_query_reads_it(begins: str | None, waiting: int) -> None:
    options = {} if begins is None else {"startingOffsets": begins}
    played = Played(lambda at_s: [1000] * 4, lambda number, records: 100.0, options=options).play(90.0)
    assert samples_of(played, [10.3], with_jobs=False)[0].backlog == waiting


def test_a_trigger_that_is_longer_than_the_bound_is_not_held_against_the_size() -> None:
    """Once an hour, for a minute: latency counts from when the records were due."""
    played = Played(even(1), lambda number, records: 60.0, trigger_s=3600.0).play(4 * 3600.0)
    times_s = ticks(4 * 3600.0, 60.0)
    for at_s, sample in zip(times_s, samples_of(played, times_s), strict=True):
        assert sample.latency_s is not None
        assert sample.latency_s <= 61, at_s
    strict = samples_of(replace(played, taken=0), times_s, late_after_s=7200.0)
    assert max(sample.latency_s or 0.0 for sample in strict) >= 3600


def test_without_any_offsets_a_batch_that_runs_is_all_there_is() -> None:
    played = Played(even(10), lambda number, records: 25.0, trigger_s=10.0).play(100.0)
    readings = QueryReadings(played.query_at(0.3), 0.3, None)
    played.taken = 0
    sample = Sample("none", 0.0)
    for at_s in ticks(80.0):
        query = played.query_at(at_s)
        for progress in query.progresses:
            for name in ("startOffset", "endOffset", "latestOffset"):
                progress.body["sources"][0][name] = None
        nothing = (None,)
        blind = replace(query, start=nothing, end=nothing, latest=nothing, committed=nothing)
        batches = readings.update(at_s, blind, played.jobs_at(at_s), ())
        sample = readings.sample(at_s)
        for batch in batches[1:]:
            assert batch.scheduling_delay_s == pytest.approx(15.0)  # 25 s after the one before instead of 10
    assert sample.backlog == 0
    assert sample.latency_s == pytest.approx(25.0 + (sample.running_s or 0), abs=0.5)


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_jumps_costs_no_more_than_a_look(jump_s: float) -> None:
    """Spark tells wall times. What is new since the last look happened since then, whatever the clock says."""
    played = Played(even(100), lambda number, records: 7.0).play(200.0)
    readings = QueryReadings(played.query_at(0.3), 0.3, 30.0)
    played.taken = 0
    for at_s in ticks(200.0):
        query = played.query_at(at_s)
        if 100 < at_s <= 105:
            jumped = tuple(replace(progress, ended_s=progress.ended_s + jump_s) for progress in query.progresses)
            query = replace(query, progresses=jumped, triggered_s=(query.triggered_s or 0.0) + jump_s)
        batches = readings.update(at_s, query, played.jobs_at(at_s), played.reports_at(at_s))
        sample = readings.sample(at_s)
        assert all(at_s - 5.1 <= batch.ended_s <= at_s for batch in batches if at_s > 6)
        allowed_s = 5.1 if 100 < at_s < 125 else 0.6
        assert sample.latency_s == pytest.approx(played.oldest_wait_at(at_s), rel=0.1, abs=allowed_s) or at_s < 6
        assert (sample.running_s or 0.0) <= 12.1


def test_records_that_become_late_are_counted_once() -> None:
    played = Played(even(100), lambda number, records: 12.0, trigger_s=0.0).play(100.0)
    seen = samples_of(played, ticks(100.0, 1.0), late_after_s=10.0)
    late = [sample.late or 0.0 for sample in seen]
    assert late == sorted(late), "it never goes back"
    # A batch of 12 s: all of its records are late, for the youngest have waited 12 s when it ends.
    done = sum(batch.late or 0 for sample in seen for batch in sample.batches)
    assert done == pytest.approx(sum(batch.records for sample in seen for batch in sample.batches), rel=0.01)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(5, 500),
    st.floats(0.2, 30),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.sampled_from([None, 50, 500]),
    st.booleans(),
)
def test_counters_never_go_back_and_readings_are_never_negative(
    rate_per_s: float, took_s: float, trigger_s: float, limit: int | None, answers: bool
) -> None:
    played = Played(even(rate_per_s), lambda number, records: took_s, trigger_s, limit).play(120.0)
    seen = samples_of(played, ticks(120.0, 3.7), answers=answers)
    for name in ("arrived", "late"):
        counted = [getattr(sample, name) for sample in seen]
        assert all(b >= a - 1e-6 for a, b in pairwise(counted)), name
    assert all((sample.backlog or 0) >= 0 and (sample.latency_s or 0) >= 0 for sample in seen)
    assert sum(len(sample.batches) for sample in seen) == sum(
        0.3 <= batch[1] <= seen[-1].at_s for batch in played.batches
    )


@pytest.mark.parametrize(
    ("shares", "rows_at_once", "inside"),
    [
        ((1, 1, 1, 1), math.inf, Inside(times=False, rows=False)),
        ((7, 1, 1, 1), math.inf, Inside(times=False, rows=True)),
        ((7, 1, 1, 1), 1, Inside(times=True, rows=True)),
        ((1, 1, 1, 1), 1, Inside(times=True, rows=False)),
        ((1, 1, 0, 0), 10_000, Inside(times=False, rows=False)),
    ],
)
def test_only_what_matters_is_read_of_tasks(shares: tuple[int, ...], rows_at_once: float, inside: Inside) -> None:
    played = Played(lambda at_s: [int(share * 10 * at_s) for share in shares], lambda number, records: 9.0).play(60.0)
    readings = QueryReadings(played.query_at(0.3), 0.3, 10.0)
    assert readings.inside == Inside()
    for at_s in ticks(30.0):
        query = replace(played.query_at(at_s), rows_at_once=rows_at_once)
        readings.update(at_s, query, played.jobs_at(at_s), played.reports_at(at_s))
    assert readings.inside == inside


def test_the_fullest_partition_tells_of_skew() -> None:
    played = Played(lambda at_s: [int(70 * at_s), *[int(10 * at_s)] * 3], lambda number, records: 30.0).play(60.0)
    sample = samples_of(played, ticks(29.0))[-1]
    assert sample.skew == pytest.approx(2.8, rel=0.05)


def test_a_source_may_be_set_up_in_any_way() -> None:
    assert QuerySource("rate").first_offsets({(): 7.0}) == {(): 0.0}
    assert QuerySource("kafka", {"startingOffsets": "earliest"}).first_offsets({("t", "0"): 7.0}) == {("t", "0"): 0.0}
    assert QuerySource("kafka").first_offsets(None) == {}
