"""Nexmark 8: persons who came and opened an auction within the same ten seconds.

A join within a window is an aggregation by what both sides share: the source is read once, and state is one row per
person and window.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.nexmark import SCHEMA

WINDOW_S = 10


def results(events: DataFrame) -> DataFrame:
    who = f.coalesce("person.id", "auction.seller").alias("person")
    seen = events.where("bid is null").groupBy(window_of(WINDOW_S).alias("window"), who)
    both = seen.agg(f.max("person.name").alias("name"), f.count("auction.id").alias("auctions"))
    return both.where("name is not null and auctions > 0").select(*window_bounds(), "person", "name", "auctions")


NEXMARK_8 = StreamingApplication(
    name="nexmark-8",
    summary="persons who came and opened auctions in the same 10 s",
    document="Nexmark query 8",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "person"),
    watermark_s=5.0,
    stateful=True,
)
