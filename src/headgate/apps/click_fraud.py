"""Three signs of click fraud, by minute: many users of an address, many addresses of a user, and a high click rate.

Each click counts for its address and for its user, so that a single aggregation serves all three signs and the source
is read once. The aggregation has two steps, so that repeated values need no more state.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.clicks import SCHEMA

WINDOW_S = 60


def results(events: DataFrame) -> DataFrame:
    sides = f.array(_side("address", "user"), _side("user", "address"))
    seen = events.select("at", f.inline(sides), "kind")
    pairs = seen.groupBy(window_of(WINDOW_S).alias("window"), "subject", "name", "other").agg(
        f.count_if(f.col("kind") == "click").alias("clicks"), f.count_if(f.col("kind") == "display").alias("displays")
    )
    signs = pairs.groupBy("window", "subject", "name").agg(
        f.count("*").alias("others"), f.sum("clicks").alias("clicks"), f.sum("displays").alias("displays")
    )
    rate = f.when(f.col("displays") > 0, f.col("clicks") / f.col("displays")).alias("click_through_rate")
    return signs.select(*window_bounds(), "subject", "name", "others", "clicks", "displays", rate)


def _side(subject: str, other: str) -> Column:
    return f.struct(f.lit(subject).alias("subject"), f.col(subject).alias("name"), f.col(other).alias("other"))


CLICK_FRAUD = StreamingApplication(
    name="click-fraud",
    summary="users per address, addresses per user and click-through rate in 60 s",
    document="giannakopoulos §5.1",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "subject", "name"),
    watermark_s=10.0,
    stateful=True,
)
