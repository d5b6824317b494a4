"""The embedded source: the records that ``headgate load`` would send, at the times it would send them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from headgate.apps.record_source import RecordReader, RecordSource, newest_offset
from headgate.core.errors import InputError
from headgate.testing.clock import FakeClock
from headgate.workloads.load import Load
from headgate.workloads.payloads import Record
from headgate.workloads.replay import Answers, Replay

LOAD = Load("ramp:from=0,to=100,over=60s", seconds=60.0, speed=30.0, keys=10, skew=1.0, seed=4)
START_MS = 1_700_000_000_000


class RecordingSink:
    """A sink that retains all it gets."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def send(self, records: Sequence[Record]) -> int:
        self.records += records
        return len(records)

    def answers(self) -> Answers:
        return Answers(len(self.records))

    def flush(self) -> None: ...


def reader(since_s: float) -> RecordReader:
    """A reader of a load that started some time ago."""
    options = LOAD.options() | {"started_s": str(time.time() - since_s), "start_ms": str(START_MS)}
    return RecordSource(options).streamReader(StructType())


def test_it_gives_what_a_replay_sends() -> None:
    source = reader(since_s=100.0)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    parts = source.partitions(source.initialOffset(), end)
    # As on a cluster: every task has a reader of its own, and they come in no order.
    read = [list(reader(since_s=100.0).read(part)) for part in reversed(parts)]
    batches = [batch for part in reversed(read) for batch in part]
    given = [
        Record(key, value)
        for batch in batches
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]
    sink = RecordingSink()
    Replay(LOAD, LOAD.make_payloads(), sink, FakeClock(), start_ms=START_MS).run(threading.Event())
    assert len(given) == 3000
    assert given == sink.records


@pytest.mark.parametrize(("first", "end"), [(0, 3000), (1234, 1300), (7, 7)])
def test_any_part_of_it_is_there_as_a_table_whatever_the_time(first: int, end: int) -> None:
    options = LOAD.options() | {"started_s": "0", "start_ms": str(START_MS), "first": str(first), "end": str(end)}
    table = RecordSource(options).reader(StructType())
    values = [
        value for part in table.partitions() for batch in table.read(part) for value in batch["value"].to_pylist()
    ]
    sink = RecordingSink()
    Replay(LOAD, LOAD.make_payloads(), sink, FakeClock(), start_ms=START_MS).run(threading.Event())
    assert values == [record.value for record in sink.records[first:end]]


@pytest.mark.parametrize(("since_s", "least", "most"), [(-5.0, 0, 0), (1.0, 750, 900), (2.5, 3000, 3000)])
def test_records_arrive_by_the_clock_and_the_speed(since_s: float, least: int, most: int) -> None:
    """After a second of 30 s of the ramp, a quarter of its 3,000 records; the clock goes on while this asks."""
    assert least <= reader(since_s).reportLatestOffset()["records"] <= most


def test_those_who_scale_the_job_are_reported_how_far_it_has_come() -> None:
    options = LOAD.options() | {"started_s": str(time.time() - 100.0)}
    assert newest_offset(options) == '{"records": 3000}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option started_s '' is not a time; a number since the epoch is needed."),
        ({"started_s": "noon"}, "option started_s 'noon' is not a time"),
        ({"started_s": "0", "partitions": "0"}, "option partitions '0' is not allowed"),
        ({"started_s": "0", "workload": "constnt:1"}, "did you mean 'constant'"),
        ({"started_s": "0", "app": "numbred"}, "did you mean 'numbered'"),
    ],
)
def test_wrong_options_are_reported_at_once(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RecordSource(LOAD.options() | options).streamReader(StructType())
