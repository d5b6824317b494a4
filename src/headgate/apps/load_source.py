"""A streaming source whose load follows a workload by the clock: no broker, admission control, true lag.

Records are numbered from 0, and how many have arrived is a function of time alone, so the reader needs no state: it may
be restarted, and read a range again, and will give the same records. Use it as a Structured Streaming format::

    spark.dataSource.register(LoadSource)
    spark.readStream.format("headgate-load").options(workload="sine:mean=50,amplitude=30,period=1h", …).load()

Options: ``workload`` (as in ``headgate simulate``), ``started_s`` (epoch seconds at which the load starts; now, if not
given), ``seconds`` (how long records arrive; for ever, if not given), ``prefill`` (records that are waiting before the
load starts; none, if not given), ``partitions`` (tasks per batch) and ``max_rows_per_batch`` (how many records one
batch may take; all, if not given).
"""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from headgate.core.errors import InputError
from headgate.engines.spark.sources import offers
from headgate.workloads import parse_workload

ROWS_PER_ARROW_BATCH = 1000


def newest_offset(options: Mapping[str, str]) -> str | None:
    """How far the load has come by now, for those who scale a job that reads it; unknown if its start is."""
    if "started_s" not in options:
        return None
    return json.dumps(LoadReader(options).reportLatestOffset())


offers("headgate-load", newest_offset)


class LoadSource(DataSource):
    """The data source; Spark makes readers from it, in a process of their own."""

    @classmethod
    def name(cls) -> str:
        return "headgate-load"

    def schema(self) -> str:
        return "id long"

    def streamReader(self, schema: StructType) -> LoadReader:
        return LoadReader(self.options)


@dataclass
class Range(InputPartition):
    """Records ``first`` up to, but without, ``end``."""

    first: int
    end: int


class NumberedReader(DataSourceStreamReader):
    """Reads records that are numbered from 0; those who inherit say how many have arrived, and what is in them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._partitions = whole_option(options, "partitions", 8, least=1)
        self._max_rows = whole_option(options, "max_rows_per_batch", 0)

    @abstractmethod
    def arrived(self) -> int:
        """How many records have arrived by now."""

    @abstractmethod
    def rows(self, first: int, end: int) -> pa.RecordBatch:
        """The records ``first`` up to, but without, ``end``."""

    def initialOffset(self) -> dict[str, int]:
        return {"records": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        arrived = max(self.arrived(), start["records"])
        if isinstance(limit, ReadMaxRows):
            arrived = min(arrived, start["records"] + limit.max_rows)
        return {"records": arrived}

    def reportLatestOffset(self) -> dict[str, int]:
        return {"records": self.arrived()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, records = start["records"], end["records"] - start["records"]
        cuts = [first + records * part // self._partitions for part in range(self._partitions + 1)]
        return [Range(start, end) for start, end in pairwise(cuts) if end > start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        for first in range(partition.first, partition.end, ROWS_PER_ARROW_BATCH):
            yield self.rows(first, min(first + ROWS_PER_ARROW_BATCH, partition.end))


class LoadReader(NumberedReader):
    """Gives the numbers themselves."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._workload = parse_workload(options.get("workload", ""))
        self._started_s = float(options.get("started_s", time.time()))
        self._seconds = float(options.get("seconds", math.inf))
        self._prefill = whole_option(options, "prefill", 0)

    def arrived(self) -> int:
        elapsed_s = min(time.time() - self._started_s, self._seconds)
        return self._prefill + (math.floor(self._workload.arrivals(0.0, elapsed_s)) if elapsed_s > 0 else 0)

    def rows(self, first: int, end: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": pa.array(range(first, end), pa.int64())})


def whole_option(options: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    """A whole number from the options of a source."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < least:
        raise InputError(f"option {name} {text!r} is not allowed; it must be a whole number of at least {least}.")
    return int(text)
