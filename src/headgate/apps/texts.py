"""Applications over short texts: lines that match a pattern, and counts of words and hashtags by window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.words import SCHEMA

PATTERN = r"\bstream\w*"


def _grep(events: DataFrame) -> DataFrame:
    return events.where(f.col("text").rlike(PATTERN)).select("number", "at_ms", "text")


GREP = StreamingApplication(
    name="grep",
    summary="lines in which a pattern is found",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_grep,
    keys=("number",),
)


WORD_WINDOW_S = 9
WORD_SLIDE_S = 3


def _rolling_count(events: DataFrame) -> DataFrame:
    words = events.select("at", f.explode(f.split("text", " ")).alias("word"))
    counts = words.groupBy(window_of(WORD_WINDOW_S, WORD_SLIDE_S).alias("window"), "word").agg(
        f.count("*").alias("times")
    )
    return counts.select(*window_bounds(), "word", "times")


ROLLING_COUNT = StreamingApplication(
    name="rolling-count",
    summary="how often each word was said in 9 s, every 3 s",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_rolling_count,
    keys=(*WINDOW, "word"),
    watermark_s=5.0,
    stateful=True,
)


HASHTAG_WINDOW_S = 60
HASHTAG_SLIDE_S = 5
HASHTAG = r"#(\w+)"


def _rolling_hashtag_count(events: DataFrame) -> DataFrame:
    """Count messages in steps of five seconds, and add the steps up to windows.

    A message then meets the state once; counted in windows at once, it would do so twelve times.
    """
    found = f.regexp_extract_all("text", f.lit(HASHTAG))
    hashtags = events.select("at", f.explode(f.transform(found, f.lower)).alias("hashtag"))
    steps = hashtags.groupBy(window_of(HASHTAG_SLIDE_S).alias("step"), "hashtag").agg(f.count("*").alias("times"))
    windows = f.window(f.window_time("step"), f"{HASHTAG_WINDOW_S} seconds", f"{HASHTAG_SLIDE_S} seconds")
    counts = steps.groupBy(windows.alias("window"), "hashtag").agg(f.sum("times").alias("times"))
    return counts.select(*window_bounds(), "hashtag", "times")


ROLLING_HASHTAG_COUNT = StreamingApplication(
    name="rolling-hashtag-count",
    summary="how often each hashtag was used in 60 s, every 5 s",
    document="imai §IV-A",
    schema=SCHEMA,
    results=_rolling_hashtag_count,
    keys=(*WINDOW, "hashtag"),
    watermark_s=5.0,
    stateful=True,
)
