"""The records of a load as a streaming source without a broker: what ``headgate load`` would send, at the same times.

The columns are ``key`` and ``value``, as in Spark's Kafka source. The number of arrivals depends on time alone, and a
record on its number, so a query may be restarted and read a range again::

    spark.dataSource.register(RecordSource)
    spark.readStream.format("headgate-records").options(**load.options(), started_s=str(started_s)).load()

Options: those of a load (``Load.options``: workload, app, seconds, speed, keys, skew, seed); ``started_s``, epoch
seconds at which it starts, unchanged after a restart; ``start_ms``, the event time of its start (default
``started_s``); ``partitions`` and ``max_rows_per_batch`` as in ``load_source.py``. ``spark.read`` returns the records
from number ``first`` (default 0) up to, excluding, ``end`` as a table, whatever the time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import StructType

import headgate.apps.payloads  # noqa: F401 - registers the payloads of all applications, also in Spark's workers
from headgate.apps.load_source import (
    DataSource,
    DataSourceReader,
    InputPartition,
    NumberedReader,
    Range,
    whole_option,
)
from headgate.core.errors import InputError
from headgate.engines.spark.sources import offers
from headgate.workloads.load import Load
from headgate.workloads.payloads import Payloads
from headgate.workloads.schedule import event_times_ms

LOADS_CACHED = 8
"""Each process caches the workload and the data of this many loads."""


def newest_offset(options: Mapping[str, str]) -> str:
    """Return the latest offset, for the scaler of a job that reads the load."""
    return json.dumps(RecordReader(options).reportLatestOffset())


class RecordSource(DataSource):
    """The data source; Spark creates its readers in another process."""

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
    """Returns the records of a load as they become due."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._load = Load.from_options(options)
        self._started_s = _moment(options, "started_s")
        self._start_ms = round(_moment(options, "start_ms") if "start_ms" in options else self._started_s * 1000)
        self.arrived()  # Reports an invalid workload at once.

    def arrived(self) -> int:
        return _cached(self._load).due_after(time.time() - self._started_s)

    def rows(self, first: int, end: int) -> pa.RecordBatch:
        due_s = _cached(self._load).schedule.due_s(first, end - first)
        records = _payloads(self._load).records(first, event_times_ms(due_s, self._start_ms))
        columns = {"key": [record.key for record in records], "value": [record.value for record in records]}
        return pa.RecordBatch.from_pydict({name: pa.array(column, pa.binary()) for name, column in columns.items()})


class RecordTable(DataSourceReader):
    """Returns a range of the records of a load, as a stream does."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._reader = RecordReader(options)
        self._first, self._end = whole_option(options, "first", 0), whole_option(options, "end", 0)

    def partitions(self) -> Sequence[InputPartition]:
        found = self._reader.partitions({"records": self._first}, {"records": self._end})
        return found or [Range(self._first, self._first)]  # Without any partition, Spark would read ``None``.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


offers(RecordSource.name(), newest_offset)


@lru_cache(LOADS_CACHED)
def _cached(load: Load) -> Load:
    """Return the same load from a cache: readers are sent to every task, and their data must not be."""
    return replace(load)


@lru_cache(LOADS_CACHED)
def _payloads(load: Load) -> Payloads:
    return load.make_payloads()


def _moment(options: Mapping[str, str], name: str) -> float:
    """Return a required time; with a default, a restarted query would read other records."""
    text = options.get(name, "")
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"option {name} {text!r} is not a time; a number since the epoch is needed.") from error
