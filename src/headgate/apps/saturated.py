"""A job that never waits for records: an application whose whole load is due at once, in batches of a given size.

The tasks that read records also generate them, which takes a part of the executors' time. Results are computed and
not stored, so that no disk is measured.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.apps.record_source import RecordSource
from headgate.apps.registry import find_application
from headgate.workloads.load import AS_FAST_AS_ACCEPTED, Load

RECORDS_PER_S = 1000.0
"""Records per second of event time: the number of records in a window is a part of an application's cost."""
LASTING_S = 10_000_000.0
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start_saturated(
    spark: SparkSession, name: str, directory: Path, *, partitions: int, max_rows_per_batch: int
) -> StreamingQuery:
    """Start the query; ``directory`` is for the checkpoint and the learned state."""
    application = find_application(name)
    spark.dataSource.register(RecordSource)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    load = Load(f"constant:{RECORDS_PER_S:g}", name, LASTING_S, AS_FAST_AS_ACCEPTED)
    records = (
        spark.readStream.format(RecordSource.name())
        .options(**load.options(), started_s=str(time.time()))
        .option("partitions", str(partitions))
        .option("max_rows_per_batch", str(max_rows_per_batch))
        .load()
    )

    def write(results: DataFrame, batch: int) -> None:
        application.write_batch(results, batch, folder=directory / "learned", write=_compute)

    return (
        application.run(records)
        .writeStream.foreachBatch(write)
        .outputMode(application.output_mode)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )


def _compute(results: DataFrame) -> None:
    results.write.format("noop").mode("append").save()
