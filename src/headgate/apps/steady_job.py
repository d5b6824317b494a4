"""A job in which every record takes the same time: load source → an operator that sleeps → a file sink.

Sleeping stands for waiting on a service or a disk. It lets executors on a small machine behave as they would on
separate machines: two of them process twice as much, although they share two cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import coalesce, count, count_distinct, lit
from pyspark.sql.functions import max as highest
from pyspark.sql.streaming.query import StreamingQuery

from headgate.apps.load_source import LoadSource

__all__ = ["Output", "SparkSession", "SteadyJob", "StreamingQuery", "working"]


@dataclass(frozen=True)
class SteadyJob:
    """The job; ``directory`` is for the output and the checkpoint."""

    directory: Path
    workload: str
    seconds: float
    cost_s: float = 0.02
    """How long a record occupies an executor core."""
    trigger_interval_s: float = 2.0
    partitions: int = 8
    """Tasks per batch: more than executors, so that new executors find work within a running batch."""
    max_rows_per_batch: int = 0
    prefill: int = 0
    """Records that are waiting when the job starts."""
    load_starts_s: float | None = None
    """When the load starts, in epoch seconds; by default with the job."""

    @property
    def output(self) -> str:
        return str(self.directory / "output")

    def warm_up(self, spark: SparkSession) -> None:
        """Process a few records, so that the first real batch does not wait for what they load."""
        directory = self.directory / "warm-up"
        trial = replace(
            self, directory=directory, workload="constant:10", seconds=1.0, cost_s=0.0, prefill=0, load_starts_s=None
        )
        query = trial.start(spark)
        query.processAllAvailable()
        query.stop()

    def start(self, spark: SparkSession) -> StreamingQuery:
        spark.dataSource.register(LoadSource)
        records = (
            spark.readStream.format(LoadSource.name())
            .option("workload", self.workload)
            .option("started_s", str(self.load_starts_s or time.time()))
            .option("seconds", str(self.seconds))
            .option("prefill", str(self.prefill))
            .option("partitions", str(self.partitions))
            .option("max_rows_per_batch", str(self.max_rows_per_batch))
            .load()
        )
        return (
            records.mapInArrow(working(self.cost_s), "id long")
            .writeStream.format("parquet")
            .option("path", self.output)
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(processingTime=f"{round(self.trigger_interval_s * 1000)} milliseconds")
            .start()
        )

    def check(self, spark: SparkSession) -> Output:
        """Count the records of the sink."""
        row = (
            spark.read.parquet(self.output)
            .agg(count("id"), count_distinct("id"), coalesce(highest("id") + 1, lit(0)))
            .first()
        )
        assert row is not None
        return Output(records=row[0], distinct=row[1], expected=row[2])


@dataclass(frozen=True)
class Output:
    """Records are numbered without a gap, so the highest number gives their expected count."""

    records: int
    distinct: int
    expected: int

    @property
    def missing(self) -> int:
        return self.expected - self.distinct

    @property
    def doubled(self) -> int:
        return self.records - self.distinct

    @property
    def is_exact(self) -> bool:
        return self.missing == 0 and self.doubled == 0


def working(cost_s: float) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` that sleeps this long for each record."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(cost_s * batch.num_rows)
            yield batch

    return work
