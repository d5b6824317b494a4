"""The sources of a run's records: a topic, or a load that is embedded in the job.

Both return a stream, and any part of it again as a table, by the offsets in Spark's checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from pyspark.sql import DataFrame, SparkSession

from headgate.core.errors import EngineError
from headgate.engines.spark.snapshots import distance, numbers_in
from headgate.workloads.load import Load

Offset: TypeAlias = Mapping[str, object]
"""An offset of a source, as in Spark's progress and checkpoints."""


class RunSource(Protocol):
    """A source of records."""

    @property
    def begin(self) -> Offset:
        """The offset at which the first batch begins."""
        ...

    def stream(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        """Return the records as they arrive; ``options`` are additional options of the reader."""
        ...

    def table(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        """Return the records between two offsets again."""
        ...


@dataclass(frozen=True)
class TopicSource:
    """A topic from given offsets on."""

    bootstrap: str
    topic: str
    begin: Offset
    """By topic and partition. A partition that is added later is read from its start."""

    def stream(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
            .option("startingOffsets", json.dumps(self.begin))
            .options(**options)
            .load()
        )

    def table(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        ends = self._partitions(end)
        # A partition that is not in the start was added in the meantime.
        starts = {name: self._partitions(start).get(name, 0) for name in ends}
        return (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("assign", json.dumps({self.topic: sorted(map(int, ends))}))
            .option("startingOffsets", json.dumps({self.topic: starts}))
            .option("endingOffsets", json.dumps({self.topic: ends}))
            .load()
        )

    def _partitions(self, offset: Offset) -> Mapping[str, int]:
        if self.topic not in offset:
            raise EngineError(f"offset {json.dumps(offset)} tells nothing of topic {self.topic!r}.")
        return cast("Mapping[str, int]", offset[self.topic])


@dataclass(frozen=True)
class EmbeddedSource:
    """A load whose records become due by the clock, inside the job."""

    load: Load
    started_s: float
    """Its start in epoch seconds, unchanged after a restart."""
    start_ms: int
    """The event time of its start."""
    partitions: int
    """Tasks per batch."""

    @property
    def begin(self) -> Offset:
        return {"records": 0}

    def stream(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        return spark.readStream.format(_registered(spark)).options(**self._options(), **options).load()

    def table(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        bounds = {"first": str(start["records"]), "end": str(end["records"])}
        return spark.read.format(_registered(spark)).options(**self._options(), **bounds).load()

    def _options(self) -> dict[str, str]:
        return self.load.options() | {
            "started_s": repr(self.started_s),
            "start_ms": str(self.start_ms),
            "partitions": str(self.partitions),
        }


def records_between(start: Offset, end: Offset) -> int:
    """Return the number of records between two offsets.

    >>> records_between({"orders": {"0": 5}}, {"orders": {"0": 7, "1": 3}})
    5
    """
    return round(distance(numbers_in(start) or {}, numbers_in(end) or {}))


def _registered(spark: SparkSession) -> str:
    """The name of the source of embedded loads, once this session knows it."""
    from headgate.apps.record_source import RecordSource  # Which Spark before 4.0 cannot have.

    spark.dataSource.register(RecordSource)
    return RecordSource.name()
