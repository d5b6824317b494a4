"""Where the results of a run go: a folder with one part per batch, and a topic if wanted.

A part is there as a whole or not at all, and one that is written again, because its batch was cut short, replaces
itself: what the folder holds is exact, however often a job was killed. A topic cannot forget: there a batch that was
cut short may be twice, and each result carries the number of its batch by which that is seen.
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
    """A folder that has a folder ``batch=N`` for each batch, as Spark and others read partitions."""

    folder: Path
    form: Form = "parquet"

    def write(self, results: DataFrame, batch: int) -> None:
        """Write the results of a batch, in place of what may be there of it."""
        # Spark does not read what begins with a dot.
        unfinished, part = self.folder / f".{BATCH}={batch}", self.part(batch)
        results.drop(BATCH).write.mode("overwrite").format(self.form).save(str(unfinished))
        self.forget(batch)
        unfinished.rename(part)

    def part(self, batch: int) -> Path:
        return self.folder / f"{BATCH}={batch}"

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """All that was written, with the number of its batch."""
        # In JSON nothing tells the types.
        known = StructType([field for field in schema if field.name != BATCH]).add(BATCH, "integer")
        self.folder.mkdir(parents=True, exist_ok=True)
        return spark.read.schema(known).format(self.form).load(str(self.folder))

    def read_part(self, spark: SparkSession, batch: int, schema: StructType) -> DataFrame:
        """What was written of one batch."""
        return spark.read.schema(schema).format(self.form).load(str(self.part(batch)))

    def forget(self, batch: int) -> None:
        """Take away what was written of a batch."""
        shutil.rmtree(self.part(batch), ignore_errors=True)


@dataclass(frozen=True)
class ResultTopic:
    """A topic that gets each result as JSON."""

    bootstrap: str
    topic: str

    def write(self, results: DataFrame, batch: int) -> None:
        columns = [f.col(name) for name in results.columns if name != BATCH]
        rows = results.select(f.to_json(f.struct(*columns, f.lit(batch).alias(BATCH))).alias("value"))
        target = rows.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        target.option("topic", self.topic).save()


@dataclass(frozen=True)
class ResultSink:
    """Where all results go."""

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
