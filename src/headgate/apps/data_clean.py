"""Page views that succeeded, without what does not belong in them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.pages import SCHEMA

SUCCEEDED = 200


def results(events: DataFrame) -> DataFrame:
    succeeded = events.where(f.col("status") == SUCCEEDED)
    # The same page under two addresses is one page.
    page = f.lower(f.trim(f.split_part("url", f.lit("?"), f.lit(1))))
    return succeeded.select("number", "at_ms", page.alias("url"), "zip", "user")


DATA_CLEAN = StreamingApplication(
    name="data-clean",
    summary="page views that succeeded, with one address for each page",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("number",),
)
