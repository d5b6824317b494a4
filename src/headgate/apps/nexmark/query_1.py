"""Nexmark 1: every bid with its price in euro."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.nexmark import SCHEMA

EUROS_PER_DOLLAR = 0.908


def results(events: DataFrame) -> DataFrame:
    bids = events.where("bid is not null").select("number", "at_ms", "bid.*")
    return bids.withColumn("price", f.round(f.col("price") * EUROS_PER_DOLLAR, 2))


NEXMARK_1 = StreamingApplication(
    name="nexmark-1",
    summary="every bid with its price in euro",
    document="Nexmark query 1",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("number",),
)
