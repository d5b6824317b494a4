"""Running an application as a stream of a few files, and its results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.apps.contract import RecordTally, StreamingApplication, tally

Row = dict[str, Any]


def streamed(
    application: StreamingApplication, spark: SparkSession, batches: Sequence[Sequence[bytes]], folder: Path
) -> tuple[list[Row], RecordTally]:
    """Run the application over the batches in turn, until nothing is left to be done.

    Gives what counts of the results: all in append mode, the newest of each key in update mode.
    """
    source = folder / "source"
    source.mkdir(parents=True)
    for index, batch in enumerate(batches):
        path = source / f"{index}.txt"
        path.write_bytes(b"\n".join(batch))
        # Files are read in the order of their age.
        os.utime(path, (1_000_000 + index, 1_000_000 + index))
    rows: list[Row] = []

    def keep(results: DataFrame) -> None:
        rows.extend(row.asDict(recursive=True) for row in results.collect())

    raw = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    query = (
        application.run(raw)
        .writeStream.foreachBatch(partial(application.write_batch, folder=folder / "learned", write=keep))
        .outputMode(application.output_mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if application.output_mode == "update":
        rows = list({tuple(row[key] for key in application.keys): row for row in rows}.values())
    return rows, tally(json.loads(progress.json) for progress in query.recentProgress)
