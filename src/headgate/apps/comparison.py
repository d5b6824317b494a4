"""Compares the results of a stream with a batch computation over the same records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication

BATCH = "batch"
"""The column with the number of the batch that wrote a result, in update mode."""
CLOSES = "window_end_ms"
TOLERANCE = 1e-9
"""The relative difference that sums may have, as a stream adds in another order."""


@dataclass(frozen=True)
class ResultDifferences:
    """Counts of results."""

    missing: int
    unexpected: int
    doubled: int
    wrong: int
    expected: int
    """The number of correct results."""

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.unexpected or self.doubled or self.wrong)


def compare(
    application: StreamingApplication, written: DataFrame, expected: DataFrame, *, closed_until_ms: int | None = None
) -> ResultDifferences:
    """Count the differences between the results of a stream and those of a batch.

    ``closed_until_ms`` is the watermark that the stream had reached: windows that end later need not be written yet.
    """
    keys = list(application.keys)
    values = [name for name in expected.columns if name not in keys]
    whole = f.struct(*values, f.lit(True).alias("there"))
    wanted = whole
    if closed_until_ms is not None and CLOSES in expected.columns:
        # Not by a filter: Spark would apply a filter on the end of a session to each event, before it merges sessions,
        # and the rest of a session that is still open would look closed.
        wanted = f.when(f.col(CLOSES) <= closed_until_ms, whole)
    newest = f.max_by(whole, BATCH) if application.output_mode == "update" else f.first(whole)
    found = written.groupBy(keys).agg(newest.alias("found"), f.count("*").alias("times"))
    both = expected.select(*keys, wanted.alias("wanted")).join(found, keys, "full_outer")
    differs = reduce(Column.__or__, (_differ(expected, name) for name in values), f.lit(False))
    is_found, is_wanted = f.col("found").isNotNull(), f.col("wanted").isNotNull()
    twice = f.col("times") > 1 if application.output_mode == "append" else f.lit(False)
    row = both.agg(
        f.count_if(is_wanted & ~is_found),
        f.count_if(is_found & ~is_wanted),
        f.count_if(twice),
        f.count_if(is_found & is_wanted & differs),
        f.count_if(is_wanted),
    ).first()
    assert row is not None
    return ResultDifferences(*row)


def _differ(expected: DataFrame, name: str) -> Column:
    found, wanted = f.col(f"found.{name}"), f.col(f"wanted.{name}")
    if expected.schema[name].dataType.typeName() != "double":
        return ~found.eqNullSafe(wanted)
    far = f.abs(found - wanted) > TOLERANCE * f.greatest(f.abs(found), f.abs(wanted))
    return f.coalesce(far, ~found.eqNullSafe(wanted))
