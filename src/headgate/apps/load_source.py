"""A streaming source that follows a workload by the clock: no broker, admission control, true lag.

Records are numbered from 0, and the number of arrivals depends on time alone. So the reader needs no state: after a
restart, or when it reads a range again, it returns the same records. Use it as a Structured Streaming format::

    spark.dataSource.register(LoadSource)
    spark.readStream.format("headgate-load").options(workload="sine:mean=50,amplitude=30,period=1h", …).load()

Options: ``workload`` (as in ``headgate simulate``), ``started_s`` (start of the load in epoch seconds; default now),
``seconds`` (how long records arrive; default for ever), ``prefill`` (records that wait before the load starts;
default none), ``partitions`` (tasks per batch) and ``max_rows_per_batch`` (most records of a batch; default all; it
needs Spark 4.2).

Sources in Python came with Spark 4.0: importing this module with an older one is refused in one sentence.
"""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql.types import StructType

from headgate.core.errors import InputError, UnsupportedEngineError
from headgate.engines.spark.sources import offers
from headgate.workloads import parse_workload

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
except ImportError as error:
    raise UnsupportedEngineError(
        "Headgate's own loads are sources in Python, which came with Spark 4.0, and this is pyspark "
        f"{pyspark.__version__}: read from Kafka, or from spark.readStream.format('rate')."
    ) from error

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["DataSource", "DataSourceReader", "InputPartition", "LoadSource", "NumberedReader", "Range", "whole_option"]

ROWS_PER_ARROW_BATCH = 1000
HAS_READ_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether this Spark lets a source in Python limit what a batch takes: since 4.2."""


def newest_offset(options: Mapping[str, str]) -> str | None:
    """Return the latest offset, for the scaler of a job that reads the load; ``None`` without a start."""
    if "started_s" not in options:
        return None
    return json.dumps(LoadReader(options).reportLatestOffset())


offers("headgate-load", newest_offset)


class LoadSource(DataSource):
    """The data source; Spark creates its readers in another process."""

    @classmethod
    def name(cls) -> str:
        return "headgate-load"

    def schema(self) -> str:
        return "id long"

    def streamReader(self, schema: StructType) -> LoadReader:
        return LoadReader(self.options)


@dataclass
class Range(InputPartition):
    """Records from ``first`` up to, excluding, ``end``."""

    first: int
    end: int


class NumberedReader(DataSourceStreamReader):
    """Reads records that are numbered from 0; subclasses define how many have arrived, and their contents."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._partitions = whole_option(options, "partitions", 8, least=1)
        self._max_rows = whole_option(options, "max_rows_per_batch", 0)
        if self._max_rows and not HAS_READ_LIMITS:
            raise InputError(
                f"option max_rows_per_batch {self._max_rows} is not possible: sources in Python take it since Spark "
                f"4.2, and this is pyspark {pyspark.__version__}."
            )

    @abstractmethod
    def arrived(self) -> int:
        """Return how many records have arrived by now."""

    @abstractmethod
    def rows(self, first: int, end: int) -> pa.RecordBatch:
        """Return the records from ``first`` up to, excluding, ``end``."""

    def initialOffset(self) -> dict[str, int]:
        return {"records": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """The end of the next batch; before Spark 4.2, neither its start nor a limit is given."""
        done = 0 if start is None else start["records"]
        arrived = max(self.arrived(), done)
        most = getattr(limit, "max_rows", None)
        return {"records": arrived if most is None else min(arrived, done + most)}

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
    """Returns the numbers themselves."""

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
    """Return a whole number from the options of a source."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < least:
        raise InputError(f"option {name} {text!r} is not allowed; it must be a whole number of at least {least}.")
    return int(text)
