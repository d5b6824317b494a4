"""The tasks on each machine of a cluster, and their distribution, every 15 minutes (rouaux §5.3.3).

Spark finds the last state of each task in a quarter of an hour, in parallel. The state of the whole cluster is in one
place, which receives a row per changed task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.tasks import COLUMNS, FOLDER, PARTS, SCHEMA
from headgate.core.errors import UnsupportedEngineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

NOWHERE = -1
"""The machine of a task that is not running."""
TASK = ["job", "task"]
MEASURES = ["tasks", "cpu", "memory", "disk"]
PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
_NONE_RUNS = pd.DataFrame(
    {"job": pd.Series(dtype="int64"), "task": pd.Series(dtype="int64"), "machine": pd.Series(dtype="int64")}
    | {name: pd.Series(dtype="float64") for name in MEASURES[1:]}
)


@dataclass
class TaskClusterState:
    """The tasks and machines of the cluster; changes must be applied in the order of time."""

    running: pd.DataFrame
    """A row per running task: job, task, machine and requested resources."""
    machines: NDArray[np.int64]
    """All machines seen so far, idle ones included."""
    until_ms: int | None = None
    """The time of the last snapshot."""

    @classmethod
    def empty(cls) -> TaskClusterState:
        return cls(_NONE_RUNS, np.array([], dtype=np.int64))

    def snapshots(self, changes: pd.DataFrame, interval_ms: int) -> Iterator[pd.DataFrame]:
        """Yield the snapshot at the end of each interval.

        ``changes`` has a row for each task reported in an interval (``window_end_ms``), with the machine it ran
        on when the interval ended, or ``NOWHERE``. An interval without reports repeats the previous snapshot.
        """
        for end_ms, reported in changes.groupby("window_end_ms", sort=True):
            while self.until_ms is not None and self.until_ms + interval_ms < int(end_ms):
                self.until_ms += interval_ms
                yield self._snapshot()
            self._take(reported)
            self.until_ms = int(end_ms)
            yield self._snapshot()

    def _take(self, reported: pd.DataFrame) -> None:
        newest = pd.concat([self.running, reported[_NONE_RUNS.columns]]).drop_duplicates(TASK, keep="last")
        self.running = newest[newest["machine"] != NOWHERE]
        self.machines = np.union1d(self.machines, self.running["machine"].unique())

    def _snapshot(self) -> pd.DataFrame:
        """Return a row per machine, and a row per figure of the whole cluster."""
        place = pd.Index(self.machines).get_indexer(self.running["machine"])
        count = len(self.machines)
        totals = np.column_stack(
            [np.bincount(place, minlength=count)]
            + [np.bincount(place, weights=self.running[name].to_numpy(), minlength=count) for name in MEASURES[1:]]
        )
        figures = {"total": totals.sum(axis=0), "mean": totals.mean(axis=0)} | dict(
            zip(PERCENTILES, np.percentile(totals, list(PERCENTILES.values()), axis=0), strict=True)
        )
        rows = pd.DataFrame(np.vstack([totals, *figures.values()]), columns=MEASURES)
        rows.insert(0, "window_end_ms", self.until_ms)
        rows.insert(1, "scope", ["machine"] * count + ["cluster"] * len(figures))
        rows.insert(2, "name", [*map(str, self.machines.tolist()), *figures])
        return rows

    def to_bytes(self) -> bytes:
        table = pa.Table.from_pandas(self.running, preserve_index=False)
        metadata = {b"machines": self.machines.tobytes(), b"until_ms": str(self.until_ms).encode()}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, saved: bytes) -> TaskClusterState:
        table = pa.ipc.open_stream(saved).read_all()
        metadata = table.schema.metadata
        machines = np.frombuffer(metadata[b"machines"], dtype=np.int64)
        return cls(table.to_pandas(ignore_metadata=True), machines, int(metadata[b"until_ms"]))


INTERVAL_S = 900
TRACE_BEGINS_S = 600
"""The zero of the trace; earlier events describe what was running before."""
SCHEDULE, UPDATE_RUNNING = 1, 8
ENDS = (2, 3, 4, 5, 6)
"""Evicted, failed, finished, killed and lost."""
RESULT = "window_end_ms BIGINT, scope STRING, name STRING, tasks DOUBLE, cpu DOUBLE, memory DOUBLE, disk DOUBLE"


def results(events: DataFrame) -> DataFrame:
    cluster = changes(events).withColumn("cluster", f.lit(0)).groupBy("cluster")
    if events.isStreaming:
        return cluster.transformWithStateInPandas(_processor(), RESULT, "append", "none")
    # A batch needs no state, and is faster without it.
    return cluster.applyInPandas(_from_the_start, RESULT)


def trace_events(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the events of the trace from its files."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    files = [str(folder / FOLDER / part) for part in PARTS]
    return spark.read.schema(schema).csv(files).withColumn("at", f.timestamp_micros("trace_us"))


def changes(events: DataFrame) -> DataFrame:
    """Return the machine of each task at the end of a quarter of an hour in which it started, changed or ended."""
    running = f.col("event").isin(SCHEDULE, UPDATE_RUNNING)
    # In the same microsecond, a task starts before it ends.
    order = f.col("trace_us") * 2 + f.when(running, 0).otherwise(1)
    quarter = f.window("at", f"{INTERVAL_S} seconds", startTime=f"{TRACE_BEGINS_S % INTERVAL_S} seconds")
    reported = events.where(running | f.col("event").isin(*ENDS)).select(
        quarter.alias("window"), "job", "task", "cpu", "memory", "disk", order.alias("order"),
        f.when(running, f.col("machine")).alias("machine"),
    )  # fmt: skip
    known = ("machine", "cpu", "memory", "disk")
    last = reported.groupBy("window", "job", "task").agg(*(f.max_by(name, "order").alias(name) for name in known))
    # Some tasks do not report what they request.
    complete = last.fillna({"machine": NOWHERE, "cpu": 0.0, "memory": 0.0, "disk": 0.0})
    return complete.select(f.unix_millis("window.end").alias("window_end_ms"), "job", "task", *known)


def _from_the_start(reported: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(list(TaskClusterState.empty().snapshots(reported, INTERVAL_S * 1000)), ignore_index=True)


def _processor() -> StatefulProcessor:
    """Make what receives the changes of completed quarters, all changes of a quarter at once."""
    try:
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    except ImportError as error:
        raise UnsupportedEngineError(
            "the application cluster-tasks keeps its state by transformWithState, which came with Spark 4.0; run it "
            "with that or a newer one."
        ) from error

    class Cluster(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("cluster", "state BINARY")

        def handleInputRows(
            self, key: Any, rows: Iterator[pd.DataFrame], timers: TimerValues
        ) -> Iterator[pd.DataFrame]:
            stored = self._state.get()
            state = TaskClusterState.empty() if stored is None else TaskClusterState.from_bytes(stored[0])
            yield from state.snapshots(pd.concat(list(rows), ignore_index=True), INTERVAL_S * 1000)
            self._state.update((state.to_bytes(),))

        def close(self) -> None:
            """Nothing to release."""

    return Cluster()


CLUSTER_TASKS = StreamingApplication(
    name="cluster-tasks",
    summary="tasks and what they request by machine and over the cluster, every 15 min",
    document="rouaux §5.3.3",
    data="real: google-cluster-2011",
    schema=SCHEMA,
    results=results,
    keys=("window_end_ms", "scope", "name"),
    event_time="trace_us",
    watermark_s=60.0,
    stateful=True,
)
