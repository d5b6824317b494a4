"""Sources whose offsets do not count records: what is known of them is said, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headgate.core.types import Sample
from headgate.engines.spark.query_readings import QueryReadings
from headgate.engines.spark.snapshots import Query, QueryProgress, QuerySource, WaitingFiles

DELTA = {"sourceVersion": 1, "reservoirId": "5f", "reservoirVersion": 4, "index": -1, "isStartingVersion": False}


@pytest.mark.parametrize(
    ("kind", "offset", "expected"),
    [
        ("delta", DELTA, None),
        ("json", {"logOffset": 7}, None),
        ("somebody-elses", {"records": 12}, None),
        ("somebody-elses", 12, None),
        ("eventhubs", {"hub": {"0": 3, "1": 5}}, {("hub", "0"): 3.0, ("hub", "1"): 5.0}),
        ("kafka", {"orders": {"0": 3}}, {("orders", "0"): 3.0}),
        ("headgate-load", {"records": 12}, {("records",): 12.0}),
    ],
)
def test_only_offsets_that_count_become_numbers(kind: str, offset: object, expected: object) -> None:
    assert QuerySource(kind).offsets(offset) == expected
    assert QuerySource(kind).offsets(json.dumps(offset)) == expected


ROWS_PER_FILE, BATCH_S = 20, 2.0


def readings_of(
    source: QuerySource, offset: Any, files: Sequence[WaitingFiles | None], until_s: float = 20.0
) -> list[Sample]:
    """A query whose batches take two seconds, of 40 rows each, one after the other; looked at every second."""
    readings: QueryReadings | None = None
    seen = []
    for at_s in map(float, range(1, int(until_s) + 1)):
        number = int(at_s / BATCH_S)
        ended = (event(number - 1, offset, number * BATCH_S),) if at_s % BATCH_S == 0 else ()
        query = Query(
            "id", "run", "files", 0.0, (source,), number, number * BATCH_S,
            start=(json.dumps(offset(number)),), end=(json.dumps(offset(number + 1)),),
            latest=(None,), committed=(json.dumps(offset(number)),), progresses=ended, files=tuple(files),
        )  # fmt: skip
        readings = readings or QueryReadings(query, at_s, 10.0)
        readings.update(at_s, query)
        seen.append(readings.sample(at_s))
    return seen


def event(number: int, offset: Any, ended_s: float) -> QueryProgress:
    source: Mapping[str, Any] = {
        "startOffset": offset(number),
        "endOffset": offset(number + 1),
        "latestOffset": None,
        "numInputRows": 2 * ROWS_PER_FILE,
    }
    took_ms = {"triggerExecution": int(1000 * BATCH_S), "addBatch": 1900, "latestOffset": 0}
    return QueryProgress(ended_s, {"durationMs": took_ms, "sources": [source]})


def delta(number: int) -> dict[str, object]:
    return DELTA | {"reservoirVersion": 700 + 90 * number, "index": 5 if number % 2 else -1}


def test_an_idle_table_is_not_taken_for_a_backlog_by_its_versions() -> None:
    seen = readings_of(QuerySource("delta", {"ignoreDeletes": "true"}), delta, (None,))
    assert [sample.done for sample in seen[1::2]] == [40.0 * number for number in range(1, 11)]
    assert {sample.backlog for sample in seen} == {None}, "it is not known, and not nothing"
    assert all((sample.arrived or 0.0) == (sample.done or 0.0) for sample in seen)


def logged(number: int) -> dict[str, int]:
    return {"logOffset": number}


def test_files_that_were_listed_and_not_read_are_a_backlog_that_has_waited_since_they_were_written() -> None:
    limited = QuerySource("json", {"maxFilesPerTrigger": "2"}, files_per_batch=2)
    seen = readings_of(limited, logged, (WaitingFiles(100, -50.0),))
    last = seen[-1]
    assert last.backlog == ROWS_PER_FILE * (100 + 2)
    assert last.latency_s == pytest.approx(last.at_s + 50.0)
    assert (last.arrived or 0.0) - (last.done or 0.0) == pytest.approx(last.backlog)
    assert last.late is not None
    assert last.late > 0


def test_without_a_limit_a_batch_that_runs_is_all_there_is() -> None:
    seen = readings_of(QuerySource("json"), logged, (None,))
    assert {sample.backlog for sample in seen} == {0.0}
    assert [sample.done for sample in seen][-1] == 400.0


@pytest.mark.parametrize("options", [{"maxBytesPerTrigger": "1m"}, {"maxFilesPerTrigger": "2", "latestFirst": "true"}])
def test_what_a_limited_source_leaves_behind_is_unknown_where_its_files_are(options: dict[str, str]) -> None:
    seen = readings_of(QuerySource("json", options), logged, (None,))
    assert {sample.backlog for sample in seen} == {None}
