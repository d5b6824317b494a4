"""Queries as Spark shows them: which sources they have, however many places of a query read them, and how far."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import EngineError
from headgate.core.types import Sample
from headgate.engines.spark import queries as query_handle
from headgate.engines.spark.queries import QueryHandle
from headgate.engines.spark.query_readings import QueryReadings
from headgate.engines.spark.snapshots import Query, QuerySource, SourceReport, partitions_of
from tests.engines.spark.scala import BEGAN_S, JVM, PlayedExecution

RATE_PER_S = 100


def embedded(records: int) -> dict[str, Any]:
    return {"records": records}


def topic(records: int) -> dict[str, Any]:
    return {"orders": {"0": records - records // 4, "1": records // 4}}


def opened(execution: PlayedExecution) -> QueryHandle:
    return QueryHandle(JVM, None, execution.as_query(), execution.run)


def look(handle: QueryHandle, execution: PlayedExecution, at_s: float) -> Query:
    execution.now_s = at_s
    query = handle.look(-BEGAN_S)
    assert query is not None
    return query


def follow(
    execution: PlayedExecution, times_s: list[float], before: QueryReadings | None = None
) -> tuple[QueryReadings, list[Sample]]:
    """Read a query whose sources report at each look how far they have come."""
    handle = opened(execution)
    readings = QueryReadings(look(handle, execution, times_s[0]), times_s[0], 10.0, before)
    handle = opened(execution)
    seen = []
    for at_s in times_s:
        query = look(handle, execution, at_s)
        report = SourceReport(partitions_of(execution.reached(at_s)))
        readings.update(at_s, query, (), [report] * len(query.sources))
        seen.append(readings.sample(at_s))
    return readings, seen


@pytest.mark.parametrize("has_contexts", [True, False], ids=["since 4.0", "3.5"])
@pytest.mark.parametrize("offset", [embedded, topic], ids=["embedded", "kafka"])
@pytest.mark.parametrize(
    ("case", "places", "sources"),
    [
        ("one reader", "a", 1),
        ("a self-join, or a self-union", "aa", 1),
        ("read three times", "aaa", 1),
        ("two readers, and one of another source between them", "aba", 2),
        ("the same topic, loaded twice: for Spark that is two sources", "ab", 2),
    ],
)
def test_a_source_counts_once_however_many_places_of_a_query_read_it(
    case: str, places: str, sources: int, offset: Any, has_contexts: bool
) -> None:
    kind = "kafka" if offset is topic else "headgate-records"
    before: QueryReadings | None = None
    for run, first_s in (("run-1", 1), ("run-2", 30)):  # It is killed and started again.
        execution = PlayedExecution(places, RATE_PER_S, offset, run, first_s, kind, has_contexts=has_contexts)
        times_s = [first_s + 0.2 + 0.7 * number for number in range(20)]
        before, seen = follow(execution, times_s, before)
        for sample in seen[4:]:
            # What had come when the batch that ended last was planned is done.
            planned_s = int(sample.at_s) - (1 if sample.at_s % 1 < 0.5 else 0)
            waiting = sources * RATE_PER_S * (sample.at_s - planned_s)
            assert sample.backlog == pytest.approx(waiting, abs=2 * sources), (case, sample.at_s)
            assert sample.latency_s == pytest.approx(sample.at_s - planned_s, abs=0.05), (case, sample.at_s)
            assert sample.input_rate_per_s == pytest.approx(sources * RATE_PER_S, rel=0.02), case
            assert (sample.arrived or 0.0) - (sample.done or 0.0) == pytest.approx(sample.backlog), case
        batches = [batch for sample in seen for batch in sample.batches]
        assert {batch.records for batch in batches[1:]} == {sources * RATE_PER_S}, case


def test_sources_are_known_in_the_order_of_offsets_and_reports_with_how_often_they_are_read() -> None:
    execution = PlayedExecution("abca", RATE_PER_S, embedded)
    query = look(opened(execution), execution, 3.2)
    assert query.sources == (
        QuerySource("headgate-records", {"letter": "a"}, readers=2),
        QuerySource("headgate-records", {"letter": "b"}),
        QuerySource("headgate-records", {"letter": "c"}),
    )
    assert query.end == ('{"records": 300}',) * 3
    assert [len(progress.body["sources"]) for progress in query.progresses] == [3, 3, 3]


def test_where_the_first_batch_begins_is_read_once_of_each_source_by_its_place_in_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: list[int] = []

    def first(jvm: Any, session: Any, sources: str, index: int) -> str:
        requests.append(index)
        return '{"orders": {"0": 7, "1": 7}}'

    monkeypatch.setattr(query_handle, "first_offsets", first)
    execution = PlayedExecution("aab", RATE_PER_S, topic, kind="kafka")
    query = look(opened(execution), execution, 0.2)
    assert query.start == ('{"orders": {"0": 7, "1": 7}}',) * 2
    assert requests == [0, 1]


def test_rows_of_tasks_are_not_read_where_they_read_each_record_twice() -> None:
    for places, asks in (("a", True), ("aa", False), ("ab", False)):
        readings, _ = follow(PlayedExecution(places, RATE_PER_S, topic, kind="kafka"), [3.2, 3.7, 4.2])
        assert readings.inside.rows is asks, places


def test_a_report_of_fewer_sources_than_there_are_is_refused_instead_of_letting_the_rest_wait_for_ever() -> None:
    two, single = (PlayedExecution(places, RATE_PER_S, embedded) for places in ("ab", "a"))
    readings = QueryReadings(look(opened(two), two, 3.2), 3.2)
    with pytest.raises(EngineError, match=r"query 'played' has 2 sources, and Spark reports of 1; its readings"):
        readings._on_progress(look(opened(single), single, 3.2).progresses[0], 3.2)
