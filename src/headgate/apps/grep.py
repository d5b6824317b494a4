"""Lines in which a pattern is found."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.words import SCHEMA

PATTERN = r"\bstream\w*"


def results(events: DataFrame) -> DataFrame:
    return events.where(f.col("text").rlike(PATTERN)).select("number", "at_ms", "text")


GREP = StreamingApplication(
    name="grep",
    summary="lines in which a pattern is found",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("number",),
)
