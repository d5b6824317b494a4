"""How many different users saw each page in a window that moves.

Two aggregations in a row, the first by user: its state is one small row for each user of a page, each of which is
written once. A set of users in one row would be rewritten with every batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.pages import SCHEMA

WINDOW_S = 9
SLIDE_S = 3


def results(events: DataFrame) -> DataFrame:
    visitors = events.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "url", "user").agg(f.count("*"))
    counts = visitors.groupBy("window", "url").agg(f.count("*").alias("visitors"))
    return counts.select(*window_bounds(), "url", "visitors")


UNIQUE_VISITOR = StreamingApplication(
    name="unique-visitor",
    summary="how many different users saw each page in 9 s, every 3 s",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "url"),
    watermark_s=5.0,
    stateful=True,
)
