"""The sinks of a run's results: a folder with a part per batch, and optionally a topic.

A part is written completely or not at all, and the part of a repeated batch replaces the earlier one, so the folder is
exact however often a job is killed. In a topic an interrupted batch may occur twice; each result carries the number of
its batch, which shows this.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headgate.apps.comparison import BATCH

Form = Literal["parquet", "json"]


@dataclass(frozen=True)
class ResultFiles:
    """A folder with a folder ``batch=N`` per batch, the usual layout of partitions."""

    folder: Path
    form: Form = "parquet"

    def write(self, results: DataFrame, batch: int) -> None:
        """Write the results of a batch, replacing earlier ones of the same batch."""
        # Spark ignores names that begin with a dot.
        unfinished, part = self.folder / f".{BATCH}={batch}", self.part(batch)
        results.drop(BATCH).write.mode("overwrite").format(self.form).save(str(unfinished))
        self.forget(batch)
        unfinished.rename(part)

    def part(self, batch: int) -> Path:
        return self.folder / f"{BATCH}={batch}"

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return all results with the numbers of their batches."""
        # JSON has no types.
        known = StructType([field for field in schema if field.name != BATCH]).add(BATCH, "integer")
        self.folder.mkdir(parents=True, exist_ok=True)
        return spark.read.schema(known).format(self.form).load(str(self.folder))

    def read_part(self, spark: SparkSession, batch: int, schema: StructType) -> DataFrame:
        """Return the results of a batch."""
        return spark.read.schema(schema).format(self.form).load(str(self.part(batch)))

    def forget(self, batch: int) -> None:
        """Remove the results of a batch."""
        shutil.rmtree(self.part(batch), ignore_errors=True)


@dataclass(frozen=True)
class ResultTopic:
    """A topic for the results, each as JSON."""

    bootstrap: str
    topic: str

    def write(self, results: DataFrame, batch: int) -> None:
        columns = [f.col(name) for name in results.columns if name != BATCH]
        rows = results.select(f.to_json(f.struct(*columns, f.lit(batch).alias(BATCH))).alias("value"))
        target = rows.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        target.option("topic", self.topic).save()


@dataclass(frozen=True)
class ResultSink:
    """The sinks of all results."""

    files: ResultFiles
    topic: ResultTopic | None = None

    def write(self, results: DataFrame, batch: int) -> None:
        if self.topic is None:
            self.files.write(results, batch)
            return
        cached = results.persist()  # Otherwise the source would be read twice.
        try:
            self.files.write(cached, batch)
            self.topic.write(cached, batch)
        finally:
            cached.unpersist()
