"""Nexmark 5: the auctions with most bids in ten seconds, every five seconds."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.nexmark import SCHEMA

WINDOW_S = 10
SLIDE_S = 5


def results(events: DataFrame) -> DataFrame:
    bids = events.select("at", f.col("bid.auction").alias("auction")).where("auction is not null")
    counts = bids.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "auction").agg(f.count("*").alias("bids"))
    # One row per window, which is written once: the counts of a window come when it is closed, all together.
    windows = counts.groupBy("window").agg(f.collect_list(f.struct("bids", "auction")).alias("counts"))
    most = f.array_max("counts.bids")
    hottest = f.filter("counts", lambda count: count["bids"] == most)
    return windows.select(*window_bounds(), f.inline(hottest)).select(*WINDOW, "auction", "bids")


NEXMARK_5 = StreamingApplication(
    name="nexmark-5",
    summary="the auctions with most bids in 10 s, every 5 s",
    document="Nexmark query 5",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "auction"),
    watermark_s=5.0,
    stateful=True,
)
