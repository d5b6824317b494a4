"""A day of a Spark job that is played: what Spark would say at each cycle, worked out from the time alone.

Everything that remembers anything is real: the readings of queries, sources and executors, the loop with its history,
policy and guards, and the journal.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Instances, Observation, Outcome, Receipt
from headgate.engines.spark.engine import ApplicationReadings
from headgate.engines.spark.executors import ExecutorHistory
from headgate.engines.spark.snapshots import Executor, Query, QueryProgress, QuerySource, SourceReport, SparkJob
from headgate.journal.writer import SqliteJournal
from headgate.runtime.assembly import preview_policy, wire
from headgate.runtime.autoscaler import DEFAULT_INTERVAL_S
from headgate.testing import FakeClock

DAY_S = 86_400.0
PARTITIONS = 64
PER_PARTITION_PER_S = 100
BATCH_S = 0.8
"""A batch starts every second and takes this long."""
SIZE = 4


@dataclass(frozen=True)
class Day:
    memory_mib: float
    cycle_ms: float


class PlayedEngine:
    """A job that keeps up with its load and never changes its size."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._readings = ApplicationReadings(10.0)
        self._executors = ExecutorHistory()
        self._observed_s = clock.now()

    def topology(self) -> Topology:
        return Topology.single()

    def observe(self) -> Observation:
        now = self._clock.now()
        self._executors.see(now, 0.0, [_executor(str(number), now) for number in range(SIZE)])
        reports = {"run": [SourceReport({("events", str(number)): _offset(now) for number in range(PARTITIONS)})]}
        self._readings.update(now, [self._query(now)], _jobs(now), reports, self._executors, SIZE)
        self._observed_s = now
        sample = self._readings.sample("job", now, 1)
        assert sample is not None
        return Observation(now, {"job": sample}, {"job": Instances(SIZE, SIZE, SIZE)})

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(self._clock.now(), {"job": Answer(Outcome.UNCHANGED, SIZE)})

    def close(self) -> None:
        pass

    def _query(self, now: float) -> Query:
        batch = int(now)
        done = [int(number) for number in range(int(self._observed_s), batch + 1)]
        ended = [number for number in done if self._observed_s < number + BATCH_S <= now]
        committed = batch if now >= batch + BATCH_S else batch - 1
        return Query(
            id="query",
            run_id="run",
            name="played",
            trigger_interval_s=1.0,
            sources=(QuerySource("kafka", {"startingOffsets": "earliest"}),),
            batch_id=batch,
            triggered_s=float(batch),
            start=(_text(batch - 1),),
            end=(_text(batch),),
            latest=(_text(batch),),
            committed=(_text(committed),),
            progresses=tuple(QueryProgress(number + BATCH_S, _event(number)) for number in ended),
        )


def _offset(at_s: float) -> float:
    return float(int(PER_PARTITION_PER_S * at_s))


def _offsets(batch: int) -> dict[str, dict[str, int]]:
    return {"events": {str(number): int(_offset(batch)) for number in range(PARTITIONS)}}


def _text(batch: int) -> str:
    return json.dumps(_offsets(batch))


def _event(batch: int) -> dict[str, Any]:
    source = {
        "numInputRows": PARTITIONS * PER_PARTITION_PER_S,
        "startOffset": _offsets(batch - 1),
        "endOffset": _offsets(batch),
        "latestOffset": _offsets(batch),
    }
    took_ms = round(1000 * BATCH_S)
    return {"durationMs": {"triggerExecution": took_ms, "addBatch": took_ms}, "sources": [source]}


def _jobs(now: float) -> list[SparkJob]:
    batch, share = int(now), (now - int(now)) / BATCH_S
    return [SparkJob(batch, "run", float(batch), PARTITIONS, int(PARTITIONS * share), PARTITIONS)] if share < 1 else []


def _executor(name: str, now: float) -> Executor:
    return Executor(
        id=name,
        is_active=True,
        cores=1,
        active_tasks=1,
        completed_tasks=int(now),
        cached_blocks=0,
        busy_ms=int(1000 * BATCH_S * now),
        added_ms=0,
        removed_ms=None,
    )


def play_day(seconds: float = DAY_S) -> Day:
    """What a day of cycles leaves in memory, and what a cycle takes without Spark."""
    with tempfile.TemporaryDirectory() as folder, closing(SqliteJournal(Path(folder, "journal.db"))) as journal:
        clock = FakeClock(1000.3)
        process = psutil.Process()
        gc.collect()
        before = process.memory_info().rss
        policy = preview_policy("reactive", parse_objective("latency p95 < 10s"))
        loop = wire(PlayedEngine(clock), policy, clock, engine_name="played", journal=journal)
        cycles, began_s = int(seconds / DEFAULT_INTERVAL_S), time.process_time()
        for _ in range(cycles):
            loop.tick()
            clock.advance(DEFAULT_INTERVAL_S)
        cycle_ms = 1000 * (time.process_time() - began_s) / cycles
        gc.collect()
        return Day((process.memory_info().rss - before) / 2**20, cycle_ms)


if __name__ == "__main__":
    print(play_day())
