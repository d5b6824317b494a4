"""The load source: how many records have arrived is a function of time, and ranges are cut without gaps."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from headgate.apps.load_source import LoadReader, LoadSource
from headgate.core.errors import InputError


def reader(
    *, workload: str = "constant:10", since_s: float = 100.0, seconds: float = 20.0, partitions: int = 4, most: int = 0
) -> LoadReader:
    """A reader whose load started in the past and has ended, so that its count stands still."""
    options = {"workload": workload, "started_s": str(time.time() - since_s), "seconds": str(seconds)}
    return LoadReader(options | {"partitions": str(partitions), "max_rows_per_batch": str(most)})


def test_records_arrive_as_the_workload_says_until_it_ends() -> None:
    assert reader().reportLatestOffset() == {"records": 200}


def test_records_that_wait_from_the_start_come_before_those_that_arrive() -> None:
    filled = LoadSource({"workload": "constant:0", "prefill": "500"}).streamReader(StructType())
    assert filled.reportLatestOffset() == {"records": 500}
    ended = {"workload": "constant:10", "started_s": str(time.time() - 100.0), "seconds": "20", "prefill": "500"}
    late = LoadReader(ended)
    assert late.reportLatestOffset() == {"records": 700}


def test_nothing_arrives_before_the_load_starts() -> None:
    assert reader(since_s=-60.0).reportLatestOffset() == {"records": 0}


def test_a_batch_takes_no_more_than_it_may() -> None:
    limited = reader(most=50)
    assert limited.getDefaultReadLimit() == ReadMaxRows(50)
    assert limited.latestOffset({"records": 0}, ReadMaxRows(50)) == {"records": 50}
    assert limited.latestOffset({"records": 180}, ReadMaxRows(50)) == {"records": 200}
    assert limited.latestOffset({"records": 0}, ReadAllAvailable()) == {"records": 200}


def test_without_a_limit_a_batch_takes_all() -> None:
    assert reader().getDefaultReadLimit() == ReadAllAvailable()


def test_a_clock_that_went_back_takes_no_record_back() -> None:
    assert reader(since_s=0.0).latestOffset({"records": 150}, ReadAllAvailable()) == {"records": 150}


@given(
    start=st.integers(0, 10_000),
    records=st.integers(0, 5_000),
    partitions=st.integers(1, 12),
)
def test_partitions_cover_a_batch_exactly(start: int, records: int, partitions: int) -> None:
    source = reader(partitions=partitions)
    parts = source.partitions({"records": start}, {"records": start + records})
    assert len(parts) <= partitions
    ids = [number for part in parts for batch in source.read(part) for number in batch.column("id").to_pylist()]
    assert ids == list(range(start, start + records))


def test_reading_a_range_again_gives_the_same_records() -> None:
    source = reader()
    (part, *_) = source.partitions({"records": 0}, {"records": 5_000})
    once, twice = ([batch.to_pydict() for batch in source.read(part)] for _ in range(2))
    assert once == twice
    assert len(list(itertools.chain.from_iterable(batch["id"] for batch in once))) == 1250


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workload": "constnt:10"}, "did you mean 'constant'"),
        ({"workload": "constant:10", "partitions": "0"}, "partitions '0' is not allowed"),
        ({"workload": "constant:10", "partitions": "many"}, "partitions 'many' is not allowed"),
        ({"workload": "constant:10", "max_rows_per_batch": "-1"}, "max_rows_per_batch '-1' is not allowed"),
    ],
)
def test_wrong_options_are_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LoadSource(options).streamReader(StructType())
