"""How often each page has been viewed since the start."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.pages import SCHEMA


def results(events: DataFrame) -> DataFrame:
    return events.groupBy("url").agg(f.count("*").alias("views"))


PAGE_VIEW = StreamingApplication(
    name="page-view",
    summary="how often each page has been viewed",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("url",),
    output_mode="update",
    stateful=True,
)
