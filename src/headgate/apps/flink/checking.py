"""What a Flink job wrote against the batch computation over the same records."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headgate.apps.comparison import Differences, compare
from headgate.apps.contract import Application
from headgate.apps.flink.programs import SLOW_MIDDLE
from headgate.apps.registry import find_application


def check_results(spark: SparkSession, program: str, records: Path, results: Path) -> Differences:
    """Compare the results of a job that has ended with those of a batch over its records, one on each line of a file.

    What a job has begun to write, and no checkpoint has, is in files whose names begin with a dot: those do not count.
    """
    application = SLOW_MIDDLE_CHECK if program == SLOW_MIDDLE else find_application(program)
    expected = application.run(spark.read.text(str(records)))
    return compare(application, spark.read.schema(expected.schema).json(str(results)), expected)


def _numbered(events: DataFrame) -> DataFrame:
    return events.select("number", "at_ms")


SLOW_MIDDLE_CHECK = Application(
    name=SLOW_MIDDLE,
    summary="each record, once",
    document="of our own",
    data="generated",
    schema="number BIGINT NOT NULL, at_ms BIGINT NOT NULL",
    results=_numbered,
    keys=("number",),
)
