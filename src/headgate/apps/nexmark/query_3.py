"""Nexmark 3: who sells in one category, of those who live in three states.

A join of two streams without a window: a person may open an auction at any time, so both sides stay in the state
forever. It grows with the persons of three states and with the auctions of one category. Spark reads the source once
for each side.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.nexmark import SCHEMA

CATEGORY = 10
STATES = ("OR", "ID", "CA")


def results(events: DataFrame) -> DataFrame:
    persons = events.where(f.col("person.state").isin(*STATES)).select(
        f.col("person.id").alias("seller"), "person.name", "person.city", "person.state"
    )
    auctions = events.where(f.col("auction.category") == CATEGORY).select(
        f.col("auction.id").alias("auction"), "auction.seller"
    )
    return auctions.join(persons, "seller").select("auction", "seller", "name", "city", "state")


NEXMARK_3 = StreamingApplication(
    name="nexmark-3",
    summary="auctions of one category by sellers of three states, a join",
    document="Nexmark query 3",
    data="generated",
    schema=SCHEMA,
    results=results,
    keys=("auction",),
    stateful=True,
)
