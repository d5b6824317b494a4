"""Nexmark 11: how many bids each bidder made in one go, until ten seconds passed without one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds
from headgate.apps.records.nexmark import SCHEMA

GAP_S = 10


def results(events: DataFrame) -> DataFrame:
    bids = events.select("at", f.col("bid.bidder").alias("bidder")).where("bidder is not null")
    session = f.session_window("at", f"{GAP_S} seconds").alias("window")
    return bids.groupBy(session, "bidder").agg(f.count("*").alias("bids")).select(*window_bounds(), "bidder", "bids")


NEXMARK_11 = StreamingApplication(
    name="nexmark-11",
    summary="bids of each bidder by session, which ends after 10 s without one",
    document="Nexmark query 11",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "bidder"),
    watermark_s=5.0,
    stateful=True,
)
