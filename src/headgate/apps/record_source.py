"""The records of a load as a streaming source, without a broker: what ``headgate load`` would send, when it would.

The columns are ``key`` and ``value``, as those of Spark's Kafka source. How many records have arrived is a function of
time alone, and a record of its number, so a query may be restarted and read a range again::

    spark.dataSource.register(RecordSource)
    spark.readStream.format("headgate-records").options(**load.options(), started_s=str(started_s)).load()

Options: those of a load (``Load.options``: workload, app, seconds, speed, keys, skew, seed); ``started_s``, epoch
seconds at which it starts, the same again after a restart; ``start_ms``, the event time of its start (``started_s``, if
not given); ``partitions`` and ``max_rows_per_batch`` as in ``load_source.py``. With ``spark.read``, the records from
number ``first`` (0, if not given) up to, but without, ``end`` are there as a table, whatever the time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import headgate.apps.payloads  # noqa: F401 - registers the payloads of all applications, also in Spark's workers
from headgate.apps.load_source import NumberedReader, Range, whole_option
from headgate.core.errors import InputError
from headgate.engines.spark.sources import offers
from headgate.workloads.load import Load
from headgate.workloads.payloads import Payloads
from headgate.workloads.schedule import event_times_ms

LOADS_CACHED = 8
"""Each process reads the workload and the data of so many loads once only."""


def newest_offset(options: Mapping[str, str]) -> str:
    """How far the load has come by now, for those who scale a job that reads it."""
    return json.dumps(RecordReader(options).reportLatestOffset())


class RecordSource(DataSource):
    """The data source; Spark makes readers from it, in a process of their own."""

    @classmethod
    def name(cls) -> str:
        return "headgate-records"

    def schema(self) -> str:
        return "key binary, value binary"

    def streamReader(self, schema: StructType) -> RecordReader:
        return RecordReader(self.options)

    def reader(self, schema: StructType) -> RecordTable:
        return RecordTable(self.options)


class RecordReader(NumberedReader):
    """Gives the records of a load as they become due."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._load = Load.from_options(options)
        self._started_s = _moment(options, "started_s")
        self._start_ms = round(_moment(options, "start_ms") if "start_ms" in options else self._started_s * 1000)
        self.arrived()  # What is wrong with the workload is said at once.

    def arrived(self) -> int:
        return _cached(self._load).due_after(time.time() - self._started_s)

    def rows(self, first: int, end: int) -> pa.RecordBatch:
        due_s = _cached(self._load).schedule.due_s(first, end - first)
        records = _payloads(self._load).records(first, event_times_ms(due_s, self._start_ms))
        columns = {"key": [record.key for record in records], "value": [record.value for record in records]}
        return pa.RecordBatch.from_pydict({name: pa.array(column, pa.binary()) for name, column in columns.items()})


class RecordTable(DataSourceReader):
    """Gives a range of the records of a load, as they were or will be given by a stream."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._reader = RecordReader(options)
        self._first, self._end = whole_option(options, "first", 0), whole_option(options, "end", 0)

    def partitions(self) -> Sequence[InputPartition]:
        found = self._reader.partitions({"records": self._first}, {"records": self._end})
        return found or [Range(self._first, self._first)]  # Without any, Spark would read one that is nothing.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


offers(RecordSource.name(), newest_offset)


@lru_cache(LOADS_CACHED)
def _cached(load: Load) -> Load:
    """The same load, with what has been read for it: readers travel to every task, and that must not."""
    return replace(load)


@lru_cache(LOADS_CACHED)
def _payloads(load: Load) -> Payloads:
    return load.make_payloads()


def _moment(options: Mapping[str, str], name: str) -> float:
    """Without a given start, a query that is restarted would have other records."""
    text = options.get(name, "")
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"option {name} {text!r} is not a time; a number since the epoch is needed.") from error
