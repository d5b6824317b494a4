"""Running an application as a stream of a few files, and what came of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.apps.contract import RECORDS, Application

Row = dict[str, Any]


@dataclass(frozen=True)
class Streamed:
    rows: list[Row]
    """What counts of the results: all in append mode, the newest of each key in update mode."""
    watermark_ms: int
    """Up to when windows have been closed."""
    late: int
    read: int
    malformed: int


def streamed(
    application: Application, spark: SparkSession, batches: Sequence[Sequence[bytes]], folder: Path
) -> Streamed:
    """Run the application over the batches in turn, until nothing is left to be done."""
    source = folder / "source"
    source.mkdir(parents=True)
    for index, batch in enumerate(batches):
        path = source / f"{index}.txt"
        path.write_bytes(b"\n".join(batch))
        os.utime(path, (1_000_000 + index, 1_000_000 + index))
    written: list[list[Row]] = []

    def keep(results: DataFrame) -> None:
        written.append([row.asDict(recursive=True) for row in results.collect()])

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
    return _told(application, written, [json.loads(progress.json) for progress in query.recentProgress])


def _told(application: Application, written: list[list[Row]], progresses: list[dict[str, Any]]) -> Streamed:
    rows = [row for batch in written for row in batch]
    if application.output_mode == "update":
        rows = list({tuple(row[key] for key in application.keys): row for row in rows}.values())
    counted = [progress["observedMetrics"][RECORDS] for progress in progresses if progress.get("observedMetrics")]
    return Streamed(
        rows=rows,
        watermark_ms=max((_watermark_ms(progress) for progress in progresses), default=0),
        late=sum(each["numRowsDroppedByWatermark"] for progress in progresses for each in progress["stateOperators"]),
        read=sum(metrics["read"] for metrics in counted),
        malformed=sum(metrics["malformed"] for metrics in counted),
    )


def _watermark_ms(progress: dict[str, Any]) -> int:
    told = progress.get("eventTime", {}).get("watermark")
    return round(datetime.fromisoformat(told).timestamp() * 1000) if told else 0
