"""Queries over an auction house, after Nexmark: those that papers on autoscaling use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.nexmark import SCHEMA

EUROS_PER_DOLLAR = 0.908
EACH = 123
"""Query 2 selects the auctions whose numbers are multiples of this."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
WINDOW_S = 10
"""Of queries 5 and 8."""
SLIDE_S = 5
GAP_S = 10
"""A session of query 11 ends after this long without a bid."""


def _query_1(events: DataFrame) -> DataFrame:
    bids = events.where("bid is not null").select("number", "at_ms", "bid.*")
    return bids.withColumn("price", f.round(f.col("price") * EUROS_PER_DOLLAR, 2))


def _query_2(events: DataFrame) -> DataFrame:
    return events.where(f.col("bid.auction") % EACH == 0).select("number", "at_ms", "bid.auction", "bid.price")


def _query_3(events: DataFrame) -> DataFrame:
    """Join two streams without a window: a person may open an auction at any time, so both sides stay in the state.

    The state grows with the persons of three states and the auctions of a category. Spark reads the source once per
    side.
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
    # A row per window is written once: all counts of a window arrive together, when it is closed.
    windows = counts.groupBy("window").agg(f.collect_list(f.struct("bids", "auction")).alias("counts"))
    most = f.array_max("counts.bids")
    hottest = f.filter("counts", lambda count: count["bids"] == most)
    return windows.select(*window_bounds(), f.inline(hottest)).select(*WINDOW, "auction", "bids")


def _query_8(events: DataFrame) -> DataFrame:
    """Join within a window by an aggregation over the shared key.

    The source is read once, and the state has a row per person and window.
    """
    who = f.coalesce("person.id", "auction.seller").alias("person")
    seen = events.where("bid is null").groupBy(window_of(WINDOW_S).alias("window"), who)
    both = seen.agg(f.max("person.name").alias("name"), f.count("auction.id").alias("auctions"))
    return both.where("name is not null and auctions > 0").select(*window_bounds(), "person", "name", "auctions")


def _query_11(events: DataFrame) -> DataFrame:
    bids = events.select("at", f.col("bid.bidder").alias("bidder")).where("bidder is not null")
    session = f.session_window("at", f"{GAP_S} seconds").alias("window")
    return bids.groupBy(session, "bidder").agg(f.count("*").alias("bids")).select(*window_bounds(), "bidder", "bids")


def _query(
    number: int,
    summary: str,
    results: Callable[[DataFrame], DataFrame],
    keys: tuple[str, ...],
    *,
    watermark_s: float | None = None,
    stateful: bool = False,
) -> StreamingApplication:
    return StreamingApplication(
        name=f"nexmark-{number}",
        summary=summary,
        document=f"Nexmark query {number}",
        schema=SCHEMA,
        results=results,
        keys=keys,
        watermark_s=watermark_s,
        stateful=stateful,
    )


_windowed = partial(_query, watermark_s=5.0, stateful=True)
NEXMARK_QUERIES = (
    _query(1, "every bid with its price in euro", _query_1, ("number",)),
    _query(2, "bids on every 123rd auction", _query_2, ("number",)),
    _query(3, "auctions of one category by sellers of three states, a join", _query_3, ("auction",), stateful=True),
    _windowed(5, "the auctions with most bids in 10 s, every 5 s", _query_5, (*WINDOW, "auction")),
    _windowed(8, "persons who came and opened auctions in the same 10 s", _query_8, (*WINDOW, "person")),
    _windowed(11, "bids of each bidder by session, which ends after 10 s without one", _query_11, (*WINDOW, "bidder")),
)
