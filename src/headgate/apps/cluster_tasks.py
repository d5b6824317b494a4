"""What runs on each machine of a cluster, and how it is spread over the cluster, every 15 minutes (rouaux §5.3.3).

Spark finds what became of each task in a quarter of an hour, on as many cores as there are. What needs the whole
cluster, and so one place, is left with one row per task that changed: ``cluster_state.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headgate.apps.cluster_state import NOWHERE, ClusterState
from headgate.apps.contract import Application
from headgate.apps.records.tasks import COLUMNS, FOLDER, PARTS, SCHEMA

INTERVAL_S = 900
TRACE_BEGINS_S = 600
"""Where the trace has its zero; what lies before was there when it began."""
SCHEDULE, UPDATE_RUNNING = 1, 8
ENDS = (2, 3, 4, 5, 6)
"""Evicted, failed, finished, killed and lost."""
RESULT = "window_end_ms BIGINT, scope STRING, name STRING, tasks DOUBLE, cpu DOUBLE, memory DOUBLE, disk DOUBLE"


def results(events: DataFrame) -> DataFrame:
    cluster = changes(events).withColumn("cluster", f.lit(0)).groupBy("cluster")
    if events.isStreaming:
        return cluster.transformWithStateInPandas(_Cluster(), RESULT, "append", "none")
    # A batch has nothing to remember, and is faster without the means to do so.
    return cluster.applyInPandas(_from_the_start, RESULT)


def trace_events(spark: SparkSession, folder: Path) -> DataFrame:
    """The events of the trace itself, from its files."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    files = [str(folder / FOLDER / part) for part in PARTS]
    return spark.read.schema(schema).csv(files).withColumn("at", f.timestamp_micros("trace_us"))


def changes(events: DataFrame) -> DataFrame:
    """Where each task ran at the end of a quarter of an hour in which it started, changed or ended."""
    running = f.col("event").isin(SCHEDULE, UPDATE_RUNNING)
    # Within a microsecond a task starts before it ends.
    order = f.col("trace_us") * 2 + f.when(running, 0).otherwise(1)
    quarter = f.window("at", f"{INTERVAL_S} seconds", startTime=f"{TRACE_BEGINS_S % INTERVAL_S} seconds")
    told = events.where(running | f.col("event").isin(*ENDS)).select(
        quarter.alias("window"), "job", "task", "cpu", "memory", "disk", order.alias("order"),
        f.when(running, f.col("machine")).alias("machine"),
    )  # fmt: skip
    known = ("machine", "cpu", "memory", "disk")
    last = told.groupBy("window", "job", "task").agg(*(f.max_by(name, "order").alias(name) for name in known))
    # A task may not have said what it needs.
    complete = last.fillna({"machine": NOWHERE, "cpu": 0.0, "memory": 0.0, "disk": 0.0})
    return complete.select(f.unix_millis("window.end").alias("window_end_ms"), "job", "task", *known)


def _from_the_start(told: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(list(ClusterState.empty().snapshots(told, INTERVAL_S * 1000)), ignore_index=True)


class _Cluster(StatefulProcessor):
    """Takes the changes of quarters that are over, all changes of a quarter at once."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getValueState("cluster", "state BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: TimerValues) -> Iterator[pd.DataFrame]:
        kept = self._kept.get()
        state = ClusterState.empty() if kept is None else ClusterState.from_bytes(kept[0])
        yield from state.snapshots(pd.concat(list(rows), ignore_index=True), INTERVAL_S * 1000)
        self._kept.update((state.to_bytes(),))

    def close(self) -> None:
        """Nothing is left open."""


CLUSTER_TASKS = Application(
    name="cluster-tasks",
    summary="tasks and what they asked for by machine and over the cluster, every 15 min",
    document="rouaux §5.3.3",
    data="real: google-cluster-2011",
    schema=SCHEMA,
    results=results,
    keys=("window_end_ms", "scope", "name"),
    event_time="trace_us",
    watermark_s=60.0,
    stateful=True,
)
