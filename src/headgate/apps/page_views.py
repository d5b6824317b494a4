"""Applications over page views: counts of views and of visitors, and cleaned views."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.pages import SCHEMA

WINDOW_S = 9
SLIDE_S = 3


def _unique_visitor(events: DataFrame) -> DataFrame:
    """Aggregate twice, first by user: the state has a small row per user of a page, which is written once.

    A row with a set of users would be rewritten with every batch.
    """
    visitors = events.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "url", "user").agg(f.count("*"))
    counts = visitors.groupBy("window", "url").agg(f.count("*").alias("visitors"))
    return counts.select(*window_bounds(), "url", "visitors")


UNIQUE_VISITOR = StreamingApplication(
    name="unique-visitor",
    summary="how many different users saw each page in 9 s, every 3 s",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_unique_visitor,
    keys=(*WINDOW, "url"),
    watermark_s=5.0,
    stateful=True,
)


def _page_view(events: DataFrame) -> DataFrame:
    return events.groupBy("url").agg(f.count("*").alias("views"))


PAGE_VIEW = StreamingApplication(
    name="page-view",
    summary="how often each page has been viewed",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_page_view,
    keys=("url",),
    output_mode="update",
    stateful=True,
)


SUCCEEDED = 200


def _data_clean(events: DataFrame) -> DataFrame:
    succeeded = events.where(f.col("status") == SUCCEEDED)
    # Addresses that differ in case or query string are the same page.
    page = f.lower(f.trim(f.split_part("url", f.lit("?"), f.lit(1))))
    return succeeded.select("number", "at_ms", page.alias("url"), "zip", "user")


DATA_CLEAN = StreamingApplication(
    name="data-clean",
    summary="page views that succeeded, with one address for each page",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_data_clean,
    keys=("number",),
)
