"""What a run wrote against the batch computation over the same records."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headgate.apps.comparison import BATCH, Differences, compare
from headgate.apps.contract import Application
from headgate.apps.running.accounts import Accounts
from headgate.apps.running.results import ResultFiles
from headgate.apps.running.sources import RunSource


def check_run(
    spark: SparkSession, application: Application, source: RunSource, files: ResultFiles, accounts: Accounts
) -> Differences:
    """Compare all that the batches of a run read, and wrote, with what one computation over it gives."""
    totals = accounts.totals()
    end = totals.end or source.begin
    raw = source.table(spark, source.begin, end)
    if application.learn is None:
        expected = application.run(raw)
        written = _written(spark, files, expected, accounts)
        return compare(application, written, expected, closed_until_ms=totals.watermark_ms)
    # Beside the results, which is where all machines of the job can write.
    with TemporaryDirectory(prefix=".check-", dir=files.folder.parent) as folder:
        expected = _learned(spark, application, source, accounts, Path(folder))
        return compare(application, _written(spark, files, expected, accounts), expected)


def _written(spark: SparkSession, files: ResultFiles, expected: DataFrame, accounts: Accounts) -> DataFrame:
    """The results of the batches that are done; what a batch wrote that was cut short does not count."""
    done = [account.batch for account in accounts.all()]
    return files.read(spark, expected.schema).where(f.col(BATCH) <= max(done, default=-1))


def _learned(
    spark: SparkSession, application: Application, source: RunSource, accounts: Accounts, folder: Path
) -> DataFrame:
    """What is learned depends on where batches end: the records are cut at the same places."""
    again = ResultFiles(folder / "results")
    schema = application.run(source.table(spark, source.begin, source.begin)).schema
    for account in accounts.all():
        rows = application.run(source.table(spark, account.start, account.end))

        def write(results: DataFrame, batch: int = account.batch) -> None:
            nonlocal schema
            schema = results.schema
            again.write(results, batch)

        application.write_batch(rows, account.batch, folder=folder / "learned", write=write)
    return again.read(spark, schema)
