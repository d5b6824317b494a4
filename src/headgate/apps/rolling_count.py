"""How often each word was said in a window that moves."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.words import SCHEMA

WINDOW_S = 9
SLIDE_S = 3


def results(events: DataFrame) -> DataFrame:
    words = events.select("at", f.explode(f.split("text", " ")).alias("word"))
    counts = words.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "word").agg(f.count("*").alias("times"))
    return counts.select(*window_bounds(), "word", "times")


ROLLING_COUNT = StreamingApplication(
    name="rolling-count",
    summary="how often each word was said in 9 s, every 3 s",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "word"),
    watermark_s=5.0,
    stateful=True,
)
