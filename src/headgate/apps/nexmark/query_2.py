"""Nexmark 2: bids on some auctions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.nexmark import SCHEMA

EACH = 123
"""Auctions whose number it divides are selected."""


def results(events: DataFrame) -> DataFrame:
    return events.where(f.col("bid.auction") % EACH == 0).select("number", "at_ms", "bid.auction", "bid.price")


NEXMARK_2 = StreamingApplication(
    name="nexmark-2",
    summary="bids on every 123rd auction",
    document="Nexmark query 2",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("number",),
)
