"""The tasks that run on a cluster, and what its machines carry: the part of ``cluster-tasks`` that is in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

NOWHERE = -1
"""The machine of a task that does not run."""
TASK = ["job", "task"]
MEASURES = ["tasks", "cpu", "memory", "disk"]
PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
_NONE_RUNS = pd.DataFrame(
    {"job": pd.Series(dtype="int64"), "task": pd.Series(dtype="int64"), "machine": pd.Series(dtype="int64")}
    | {name: pd.Series(dtype="float64") for name in MEASURES[1:]}
)


@dataclass
class ClusterState:
    """It changes as time goes on, in the order of time."""

    running: pd.DataFrame
    """One row per task that runs: job, task, machine and what it asked for."""
    machines: NDArray[np.int64]
    """All that have been seen; one that runs nothing now counts too."""
    until_ms: int | None = None
    """When the last snapshot was taken."""

    @classmethod
    def empty(cls) -> ClusterState:
        return cls(_NONE_RUNS, np.array([], dtype=np.int64))

    def snapshots(self, changes: pd.DataFrame, interval_ms: int) -> Iterator[pd.DataFrame]:
        """What runs at the end of each interval.

        ``changes`` has a row for each task that was told of in an interval (``window_end_ms``), with the machine it ran
        on when the interval ended, or ``NOWHERE``. An interval of which nothing is told is as the one before.
        """
        for end_ms, told in changes.groupby("window_end_ms", sort=True):
            while self.until_ms is not None and self.until_ms + interval_ms < int(end_ms):
                self.until_ms += interval_ms
                yield self._snapshot()
            self._take(told)
            self.until_ms = int(end_ms)
            yield self._snapshot()

    def _take(self, told: pd.DataFrame) -> None:
        newest = pd.concat([self.running, told[_NONE_RUNS.columns]]).drop_duplicates(TASK, keep="last")
        self.running = newest[newest["machine"] != NOWHERE]
        self.machines = np.union1d(self.machines, self.running["machine"].unique())

    def _snapshot(self) -> pd.DataFrame:
        """A row for each machine, and one for each figure of the whole cluster."""
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
        kept = {b"machines": self.machines.tobytes(), b"until_ms": str(self.until_ms).encode()}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata(kept)) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, saved: bytes) -> ClusterState:
        table = pa.ipc.open_stream(saved).read_all()
        kept = table.schema.metadata
        machines = np.frombuffer(kept[b"machines"], dtype=np.int64)
        return cls(table.to_pandas(ignore_metadata=True), machines, int(kept[b"until_ms"]))
