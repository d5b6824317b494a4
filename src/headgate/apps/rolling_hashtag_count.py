"""How often each hashtag was used in the last minute, every five seconds.

The messages are counted in steps of five seconds, and the steps are added up to windows. A message then meets the
state once; counted in windows at once, it would do so twelve times.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.words import SCHEMA

WINDOW_S = 60
SLIDE_S = 5
HASHTAG = r"#(\w+)"


def results(events: DataFrame) -> DataFrame:
    found = f.regexp_extract_all("text", f.lit(HASHTAG))
    hashtags = events.select("at", f.explode(f.transform(found, f.lower)).alias("hashtag"))
    steps = hashtags.groupBy(window_of(SLIDE_S).alias("step"), "hashtag").agg(f.count("*").alias("times"))
    windows = f.window(f.window_time("step"), f"{WINDOW_S} seconds", f"{SLIDE_S} seconds")
    counts = steps.groupBy(windows.alias("window"), "hashtag").agg(f.sum("times").alias("times"))
    return counts.select(*window_bounds(), "hashtag", "times")


ROLLING_HASHTAG_COUNT = StreamingApplication(
    name="rolling-hashtag-count",
    summary="how often each hashtag was used in 60 s, every 5 s",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "hashtag"),
    watermark_s=5.0,
    stateful=True,
)
