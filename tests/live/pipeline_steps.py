"""The jobs of the pipelines in the live tests: they sleep for each record, and the last one gives each record once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.apps.pipeline_plan import PipelinePlan

RAW = "number BIGINT, key STRING, at_ms BIGINT"


def parse(spark: SparkSession, plan: PipelinePlan) -> DataStreamWriter:
    return plan.write(plan.records(spark, RAW).mapInArrow(_busy(0.005), RAW), key="key")


def enrich(spark: SparkSession, plan: PipelinePlan) -> DataStreamWriter:
    return plan.write(plan.records(spark, RAW).mapInArrow(_busy(0.03), RAW), key="key")


def look_up(spark: SparkSession, plan: PipelinePlan) -> DataStreamWriter:
    """For the lines that ``grep`` finds."""
    found = "number BIGINT, at_ms BIGINT, text STRING"
    return plan.write(plan.records(spark, found).mapInArrow(_busy(0.03), found), key="number")


def once(spark: SparkSession, plan: PipelinePlan) -> DataStreamWriter:
    """What was sent twice, because a driver was killed between writing and noting that it had, comes out once."""
    return plan.write(_first_ones(plan.records(spark, RAW)), key="key")


def _first_ones(records: DataFrame) -> DataFrame:
    timed = records.selectExpr("*", "timestamp_millis(at_ms) as at").withWatermark("at", "10 minutes")
    return timed.dropDuplicatesWithinWatermark(["number"]).drop("at")


def _busy(cost_s: float):  # type: ignore[no-untyped-def]
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(cost_s * batch.num_rows)
            yield batch

    return work
