"""Applications as streams of several batches: what comes out is what plain Python finds in the same records."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.cluster_tasks import results as cluster_results
from headgate.apps.cluster_tasks import trace_events
from headgate.apps.comparison import ResultDifferences, compare
from headgate.apps.contract import StreamingApplication
from headgate.apps.records.tasks import COLUMNS, FOLDER, PARTS
from headgate.apps.registry import APPLICATIONS, find_application
from headgate.apps.smart_plugs import results as smart_plugs
from headgate.core.errors import InputError
from headgate.workloads.draws import Keys
from headgate.workloads.payloads import make_payloads
from headgate.workloads.traces import trace_folder
from tests.apps import references
from tests.apps.references import REFERENCES, Event, Row
from tests.apps.task_events import task_events
from tests.live.streaming import streamed

START_MS = 1_700_000_000_000
COUNT = 900
APART_MS = 200
TRACE_RECORDS = 527_922
JITTER_MS = 4000
"""Less than any watermark waits: records come out of order, and none is late."""
SLOW = {"smart-plugs", "cluster-tasks", "click-fraud", "flight-distances"}
"""Their streams take long enough to be left to ``make soak``."""
FIRST = {"nexmark-2": 1500}
"""The number of the first record, where the first ones would give no results."""
READINGS = 20
TRIED = [
    # Few readings, so that older ones must be forgotten.
    replace(each, results=partial(smart_plugs, readings=READINGS)) if each.name == "smart-plugs" else each
    for each in APPLICATIONS
    # What is learned depends on where batches end: it has tests of its own.
    if each.learn is None
]
EXPECTED = REFERENCES | {"smart-plugs": partial(references.smart_plugs, readings=READINGS)}
MALFORMED = (b"not JSON", b'{"number": 1}', b'{"number": "seven", "at_ms": 1}', b"null")
IMPOSSIBLE_MS = (-1, 9_223_372_036_854_775_807)


@pytest.fixture(scope="module")
def local() -> Iterator[SparkSession]:
    """A session of its own, in a JVM of its own: the other live tests have one on a cluster, with other jars."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None


def records_of(application: StreamingApplication, count: int = COUNT) -> list[bytes]:
    if application.name == "cluster-tasks":
        return task_events()
    try:
        payloads = make_payloads(application.name, seed=7, keys=Keys(count=30, skew=0.8, seed=7))
    except InputError as error:
        pytest.skip(str(error))
    jitter_ms = np.random.default_rng(7).integers(0, JITTER_MS, count)
    first = FIRST.get(application.name, 0)
    return [record.value for record in payloads.records(first, START_MS + APART_MS * np.arange(count) + jitter_ms)]


def assert_same(rows: Sequence[Row], expected: Sequence[Row], keys: Sequence[str]) -> None:
    found, wanted = ({tuple(row[key] for key in keys): row for row in table} for table in (rows, expected))
    assert len(found) == len(rows), "a result came twice"
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        assert row.keys() == wanted[key].keys()
        for name, value in row.items():
            same = math.isclose(value, wanted[key][name], rel_tol=1e-6) if isinstance(value, float) else False
            assert same or value == wanted[key][name], (key, name)


@pytest.mark.parametrize(
    "application",
    [pytest.param(each, id=each.name, marks=[pytest.mark.soak] if each.name in SLOW else []) for each in TRIED],
)
def test_a_stream_gives_what_plain_python_finds(
    application: StreamingApplication, local: SparkSession, tmp_path: Path
) -> None:
    records = records_of(application)
    third = len(records) // 3
    batches = [[*records[:third], *MALFORMED], records[third : 2 * third], records[2 * third :]]
    if application.watermark_s is not None:
        batches.append(records[:20])
    rows, reported = streamed(application, local, batches, tmp_path)
    expected = EXPECTED[application.name]([json.loads(record) for record in records])
    if reported.watermark_ms is not None:
        expected = [row for row in expected if row["window_end_ms"] <= reported.watermark_ms]
    assert expected
    assert_same(rows, expected, application.keys)
    assert (reported.read, reported.malformed) == (sum(map(len, batches)), len(MALFORMED))
    assert (reported.late > 0) == (application.watermark_s is not None)


@pytest.mark.parametrize("application", TRIED, ids=lambda each: each.name)
def test_a_batch_gives_the_same_without_a_change(application: StreamingApplication, local: SparkSession) -> None:
    records = records_of(application)
    raw = local.createDataFrame([(bytearray(record),) for record in records], "value BINARY")
    rows = [row.asDict(recursive=True) for row in application.run(raw).collect()]
    assert_same(rows, EXPECTED[application.name]([json.loads(record) for record in records]), application.keys)


def test_a_tree_learns_what_river_learns_one_by_one(local: SparkSession, tmp_path: Path) -> None:
    tree = find_application("hoeffding-tree")
    records = records_of(tree, 9000)
    batches = [records[first : first + 1500] for first in range(0, 9000, 1500)]
    rows, _ = streamed(tree, local, batches, tmp_path)
    expected = references.hoeffding_tree([[json.loads(record) for record in batch] for batch in batches])
    assert_same(rows, expected, tree.keys)
    right = [row["label"] == row["predicted"] for row in rows if row["batch"] == 5]
    assert sum(right) / len(right) > 0.85


def test_a_batch_that_is_run_again_teaches_the_tree_once(local: SparkSession, tmp_path: Path) -> None:
    tree = find_application("hoeffding-tree")
    examples = [
        local.createDataFrame([(record.decode(),) for record in part], "value STRING")
        for part in (records_of(tree, 600)[:300], records_of(tree, 600)[300:])
    ]
    first, second = (tree.run(part) for part in examples)

    def learned(batches: Sequence[tuple[DataFrame, int]], folder: Path) -> str:
        for part, batch in batches:
            tree.write_batch(part, batch, folder=folder, write=lambda written: None)
        return (folder / "tree-1.json").read_text()

    once = learned([(first, 0), (second, 1)], tmp_path / "once")
    assert learned([(first, 0), (second, 1), (second, 1)], tmp_path / "again") == once


def test_malformed_records_are_retained_aside_unchanged(local: SparkSession) -> None:
    grep = find_application("grep")
    good = b'{"number": 1, "at_ms": 1, "text": "x"}'
    impossible = [b'{"number": 1, "at_ms": %d, "text": "x"}' % at_ms for at_ms in IMPOSSIBLE_MS]
    bad = [*MALFORMED, *impossible]
    raw = local.createDataFrame([(bytearray(each),) for each in (good, *bad)] + [(None,)], "value BINARY")
    assert [row.malformed for row in grep.malformed(raw).collect()] == [*(each.decode() for each in bad), ""]
    assert grep.events(raw).count() == 1


def test_a_comparison_tells_what_is_missing_doubled_and_wrong(local: SparkSession) -> None:
    application = find_application("rolling-count")
    columns = "window_start_ms BIGINT, window_end_ms BIGINT, word STRING, times BIGINT"
    expected = [(0, 9, "a", 1), (0, 9, "b", 2), (0, 9, "c", 3), (9, 18, "a", 4)]
    written = [(0, 9, "a", 1), (0, 9, "a", 1), (0, 9, "b", 5), (0, 9, "d", 6)]
    tables = [local.createDataFrame(rows, columns) for rows in (written, expected)]
    found = compare(application, *tables, closed_until_ms=9)
    assert (found.missing, found.unexpected, found.doubled, found.wrong) == (1, 1, 1, 1)
    assert not found.is_exact
    assert compare(application, tables[1], tables[1]).is_exact


@pytest.mark.parametrize(
    ("written", "missing", "unexpected"),
    [
        pytest.param([(0, 10_000, 2, 1), (1_000, 12_000, 3, 2)], 0, 0, id="all that are closed"),
        pytest.param([(0, 10_000, 2, 1)], 1, 0, id="one is lost"),
        pytest.param([(0, 10_000, 2, 1), (1_000, 12_000, 3, 2), (0, 18_000, 1, 2)], 0, 1, id="one is too early"),
        pytest.param([(0, 10_000, 2, 1), (1_000, 12_000, 3, 2), (0, 10_000, 1, 1)], 0, 1, id="one is cut short"),
    ],
)
def test_a_session_that_continues_is_not_missed_and_one_that_is_closed_is(
    written: list[tuple[int, ...]], missing: int, unexpected: int, local: SparkSession
) -> None:
    application = find_application("nexmark-11")
    # When the watermark is at 12 s, the first bid of bidder 1 alone would be a session that is closed.
    bids = [(0, 1), (8_000, 1), (0, 2), (1_000, 3), (2_000, 3)]
    values = [
        json.dumps({"number": number, "at_ms": at_ms, "bid": {"auction": 7, "bidder": bidder, "price": 1}})
        for number, (at_ms, bidder) in enumerate(bids)
    ]
    expected = application.run(local.createDataFrame([(value,) for value in values], "value STRING"))
    sink = local.createDataFrame(written, expected.schema)
    found = compare(application, sink, expected, closed_until_ms=12_000)
    assert found == ResultDifferences(missing, unexpected, doubled=0, wrong=0, expected=2)


def test_in_update_mode_the_newest_result_of_a_key_counts(local: SparkSession) -> None:
    application = find_application("page-view")
    written = local.createDataFrame(
        [("/a", 1, 0), ("/a", 3, 2), ("/a", 2, 1)], "url STRING, views BIGINT, batch BIGINT"
    )
    expected = local.createDataFrame([("/a", 3)], "url STRING, views BIGINT")
    assert compare(application, written, expected).is_exact


@pytest.mark.soak
def test_the_real_trace_gives_what_plain_python_finds(local: SparkSession) -> None:
    try:
        folder = trace_folder().resolve()
    except InputError as error:
        pytest.skip(str(error))
    rows = [row.asDict() for row in cluster_results(trace_events(local, folder)).collect()]
    expected = REFERENCES["cluster-tasks"](list(_plain_trace(folder)))
    assert_same(rows, expected, ("window_end_ms", "scope", "name"))
    assert len({row["window_end_ms"] for row in rows}) == 13


@pytest.mark.soak
def test_the_real_trace_gives_the_same_by_replay_as_from_its_files(local: SparkSession, tmp_path: Path) -> None:
    application = find_application("cluster-tasks")
    made = make_payloads(application.name).records(0, START_MS + np.arange(TRACE_RECORDS))
    batches = [[record.value for record in made[first : first + 66_000]] for first in range(0, TRACE_RECORDS, 66_000)]
    rows, reported = streamed(application, local, batches, tmp_path)
    assert (reported.read, reported.malformed, reported.late) == (TRACE_RECORDS, 0, 0)
    expected = cluster_results(trace_events(local, trace_folder().resolve()))
    written = local.createDataFrame(rows, expected.schema)
    assert compare(application, written, expected, closed_until_ms=reported.watermark_ms).is_exact


def _plain_trace(folder: Path) -> Iterator[Event]:
    whole = ("trace_us", "job", "task", "machine", "event")
    for part in PARTS:
        with gzip.open(folder / FOLDER / part, "rt", newline="") as file:
            for row in csv.DictReader(file, list(COLUMNS)):
                yield {name: int(row[name]) for name in whole if row[name]} | {
                    name: float(row[name]) for name in ("cpu", "memory", "disk") if row[name]
                }
