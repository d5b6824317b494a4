"""The plan from which a job of a pipeline builds its query: its source and its sink.

    def build(spark, plan):
        records = plan.records(spark, "number BIGINT, at_ms BIGINT, text STRING")
        return plan.write(records.where("text like '%error%'"))

Records are JSON. A record carries the time at which it was due as ``at_ms`` (milliseconds since the epoch), which is
evaluated at the results; an operator that merges records takes the oldest time, and their number as ``records``. If
the records of the first topic have no such time, use ``unix_millis(timestamp)`` of ``plan.read``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.core.errors import InputError
from headgate.engines.spark.query_plan import Plan


@dataclass(frozen=True)
class PipelinePlan:
    """The place of a job in its pipeline."""

    job: str
    bootstrap: str
    reads: tuple[str, ...]
    writes: str
    trigger_s: float
    query: Plan
    """The records per batch and the state partitions of this start."""

    def read(self, spark: SparkSession, topic: str | None = None) -> DataFrame:
        """Return a topic from its beginning, with the columns of Spark's Kafka source (default: the only topic)."""
        name = self._topic(topic)
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", name)
            .option("startingOffsets", "earliest")
            .options(**self.query.source_options)
            .load()
        )

    def records(self, spark: SparkSession, schema: str, topic: str | None = None) -> DataFrame:
        """Return the records of a topic as columns by a ``schema`` in Spark's DDL; malformed ones are left out."""
        parsed = f.from_json(f.col("value").cast("string"), schema)
        return self.read(spark, topic).select(parsed.alias("record")).where("record is not null").select("record.*")

    def write(self, results: DataFrame, *, key: str | None = None) -> DataStreamWriter:
        """Write results to the job's topic as JSON; records with the same ``key`` stay in order."""
        value = f.to_json(f.struct("*")).alias("value")
        columns = [value] if key is None else [f.col(key).cast("string").alias("key"), value]
        return (
            results.select(*columns)
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.writes)
            .queryName(self.job)
            .trigger(processingTime=f"{round(self.trigger_s * 1000)} milliseconds")
        )

    def _topic(self, topic: str | None) -> str:
        if topic is None and len(self.reads) == 1:
            return self.reads[0]
        if topic not in self.reads:
            listed = ", ".join(self.reads)
            raise InputError(f"job {self.job} does not read topic {topic!r}; it reads: {listed}.")
        return topic


BuildFunction: TypeAlias = Callable[[SparkSession, PipelinePlan], DataStreamWriter]
"""Builds a job's query, without a checkpoint and without starting it; called for every start."""
