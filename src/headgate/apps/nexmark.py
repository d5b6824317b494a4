"""Queries over an auction house, after Nexmark: those by which papers on autoscaling measure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.nexmark import SCHEMA

EUROS_PER_DOLLAR = 0.908
EACH = 123
"""Auctions whose number it divides are selected by query 2."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
WINDOW_S = 10
"""Of queries 5 and 8."""
SLIDE_S = 5
GAP_S = 10
"""A session of query 11 ends after so long without a bid."""


def _query_1(events: DataFrame) -> DataFrame:
    bids = events.where("bid is not null").select("number", "at_ms", "bid.*")
    return bids.withColumn("price", f.round(f.col("price") * EUROS_PER_DOLLAR, 2))


def _query_2(events: DataFrame) -> DataFrame:
    return events.where(f.col("bid.auction") % EACH == 0).select("number", "at_ms", "bid.auction", "bid.price")


def _query_3(events: DataFrame) -> DataFrame:
    """Join two streams without a window: a person may open an auction at any time, so both sides stay in the state.

    The state grows with the persons of three states and with the auctions of one category. Spark reads the source once
    for each side.
    """
    persons = events.where(f.col("person.state").isin(*STATES)).select(
        f.col("person.id").alias("seller"), "person.name", "person.city", "person.state"
    )
    auctions = events.where(f.col("auction.category") == CATEGORY).select(
        f.col("auction.id").alias("auction"), "auction.seller"
    )
    return auctions.join(persons, "seller").select("auction", "seller", "name", "city", "state")


def _query_5(events: DataFrame) -> DataFrame:
    bids = events.select("at", f.col("bid.auction").alias("auction")).where("auction is not null")
    counts = bids.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "auction").agg(f.count("*").alias("bids"))
    # One row per window, which is written once: the counts of a window come when it is closed, all together.
    windows = counts.groupBy("window").agg(f.collect_list(f.struct("bids", "auction")).alias("counts"))
    most = f.array_max("counts.bids")
    hottest = f.filter("counts", lambda count: count["bids"] == most)
    return windows.select(*window_bounds(), f.inline(hottest)).select(*WINDOW, "auction", "bids")


def _query_8(events: DataFrame) -> DataFrame:
    """Join within a window by aggregating what both sides share.

    The source is read once, and state is one row per person and window.
    """
    who = f.coalesce("person.id", "auction.seller").alias("person")
    seen = events.where("bid is null").groupBy(window_of(WINDOW_S).alias("window"), who)
    both = seen.agg(f.max("person.name").alias("name"), f.count("auction.id").alias("auctions"))
    return both.where("name is not null and auctions > 0").select(*window_bounds(), "person", "name", "auctions")


def _query_11(events: DataFrame) -> DataFrame:
    bids = events.select("at", f.col("bid.bidder").alias("bidder")).where("bidder is not null")
    session = f.session_window("at", f"{GAP_S} seconds").alias("window")
    return bids.groupBy(session, "bidder").agg(f.count("*").alias("bids")).select(*window_bounds(), "bidder", "bids")


NEXMARK_QUERIES = (
    StreamingApplication(
        name="nexmark-1",
        summary="every bid with its price in euro",
        document="Nexmark query 1",
        schema=SCHEMA,
        results=_query_1,
        keys=("number",),
    ),
    StreamingApplication(
        name="nexmark-2",
        summary="bids on every 123rd auction",
        document="Nexmark query 2",
        schema=SCHEMA,
        results=_query_2,
        keys=("number",),
    ),
    StreamingApplication(
        name="nexmark-3",
        summary="auctions of one category by sellers of three states, a join",
        document="Nexmark query 3",
        schema=SCHEMA,
        results=_query_3,
        keys=("auction",),
        stateful=True,
    ),
    StreamingApplication(
        name="nexmark-5",
        summary="the auctions with most bids in 10 s, every 5 s",
        document="Nexmark query 5",
        schema=SCHEMA,
        results=_query_5,
        keys=(*WINDOW, "auction"),
        watermark_s=5.0,
        stateful=True,
    ),
    StreamingApplication(
        name="nexmark-8",
        summary="persons who came and opened auctions in the same 10 s",
        document="Nexmark query 8",
        schema=SCHEMA,
        results=_query_8,
        keys=(*WINDOW, "person"),
        watermark_s=5.0,
        stateful=True,
    ),
    StreamingApplication(
        name="nexmark-11",
        summary="bids of each bidder by session, which ends after 10 s without one",
        document="Nexmark query 11",
        schema=SCHEMA,
        results=_query_11,
        keys=(*WINDOW, "bidder"),
        watermark_s=5.0,
        stateful=True,
    ),
)
