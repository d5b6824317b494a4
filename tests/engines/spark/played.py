"""A streaming query that is played: what Spark would say of it at any moment, and the truth to compare with.

Records arrive in partitions by a function of time. Batches start at multiples of the trigger interval, or when the one
before is done, and take as long as the test says; each has as many tasks as there are partitions, done one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.engines.spark.snapshots import Query, QueryProgress, QuerySource, SourceReport, SparkJob

Arrivals = Callable[[float], list[int]]
"""How far each partition has come by a time."""


def even(rate_per_s: float, partitions: int = 4, since_s: float = 0.0) -> Arrivals:
    return lambda at_s: [int(rate_per_s * max(0.0, at_s - since_s) / partitions)] * partitions


@dataclass
class Played:
    arrivals: Arrivals
    took_s: Callable[[int, int], float]
    """How long a batch takes, by its number and its records."""
    trigger_s: float = 2.0
    limit: int | None = None
    """Records that a batch may take."""
    kind: str = "kafka"
    reads: float = 1.0
    """Rows that are read per record."""
    options: Mapping[str, str] = field(default_factory=lambda: {"startingOffsets": "earliest"})
    name: str = "played"
    run: str = "run-1"
    reports_latest: bool = True
    batches: list[tuple[float, float, list[int], list[int], list[int]]] = field(default_factory=list)
    """Start, end, first offsets, last offsets, newest offsets when planned."""
    taken: int = 0

    def play(self, until_s: float, since_s: float = 0.0) -> Played:
        at_s, done = since_s, [0] * len(self.arrivals(0.0))
        while at_s < until_s:
            latest = self.arrivals(at_s)
            end = self._admitted(done, latest)
            records = sum(end) - sum(done)
            if not records:
                at_s += self.trigger_s or 0.05
                continue
            ended_s = at_s + self.took_s(len(self.batches), records)
            self.batches.append((at_s, ended_s, done, end, latest))
            boundary_s = (at_s // self.trigger_s + 1) * self.trigger_s if self.trigger_s else at_s
            at_s, done = max(ended_s, boundary_s), end
        return self

    def _admitted(self, done: list[int], latest: list[int]) -> list[int]:
        waiting = sum(latest) - sum(done)
        if self.limit is None or waiting <= self.limit:
            return latest
        return [a + (b - a) * self.limit // waiting for a, b in zip(done, latest, strict=True)]

    # ------------------------------------------------------------------------------------------------- the truth

    def done_at(self, at_s: float) -> int:
        done = 0
        for started_s, ended_s, first, end, _ in self.batches:
            records = sum(end) - sum(first)
            if ended_s <= at_s:
                done += records
            elif started_s <= at_s:
                tasks = len(end)
                done += records * int(tasks * (at_s - started_s) / (ended_s - started_s)) // tasks
        return done

    def backlog_at(self, at_s: float) -> int:
        return sum(self.arrivals(at_s)) - self.done_at(at_s)

    def oldest_wait_at(self, at_s: float) -> float:
        """What the oldest record of a batch that has not ended, or of none yet, has waited."""
        first = [0] * len(self.arrivals(0.0))
        for _, ended_s, _, end, _ in self.batches:
            if ended_s <= at_s:
                first = end
        step_s = 0.01
        arrived_s = at_s
        while arrived_s > 0 and any(a > b for a, b in zip(self.arrivals(arrived_s), first, strict=True)):
            arrived_s -= step_s
        return at_s - arrived_s if arrived_s < at_s else 0.0

    # ---------------------------------------------------------------------------------------------- what Spark says

    def query_at(self, at_s: float) -> Query:
        running = next((batch for batch in self.batches if batch[0] <= at_s < batch[1]), None)
        ended = [batch for batch in self.batches if batch[1] <= at_s]
        committed = ended[-1][3] if ended else None
        start: list[int] | None
        end: list[int] | None
        latest: list[int] | None
        if running is not None:
            start, end, latest, triggered_s = running[2], running[3], running[4], running[0]
        else:
            start = end = latest = committed
            triggered_s = at_s // self.trigger_s * self.trigger_s if self.trigger_s else at_s
            if ended and self.trigger_s and triggered_s < ended[-1][1]:
                triggered_s, start, latest = ended[-1][0], ended[-1][2], ended[-1][4]
        new, self.taken = ended[self.taken :], len(ended)
        return Query(
            id=f"id of {self.name}",
            run_id=self.run,
            name=self.name,
            trigger_interval_s=self.trigger_s,
            sources=(QuerySource(self.kind, self.options),),
            batch_id=len(ended),
            triggered_s=triggered_s,
            start=(self._json(start if running is None or ended else None),),
            end=(self._json(end),),
            latest=(self._json(latest) if self.reports_latest else None,),
            committed=(self._json(committed),),
            progresses=tuple(QueryProgress(batch[1], self._event(batch)) for batch in new),
        )

    def jobs_at(self, at_s: float) -> list[SparkJob]:
        for number, (started_s, ended_s, _, end, _) in enumerate(self.batches):
            if started_s <= at_s < ended_s:
                done = int(len(end) * (at_s - started_s) / (ended_s - started_s))
                return [SparkJob(number, self.run, started_s, len(end), done, len(end))]
        return []

    def reports_at(self, at_s: float) -> list[SourceReport]:
        return [
            SourceReport({("events", str(number)): float(value) for number, value in enumerate(self.arrivals(at_s))})
        ]

    def _json(self, offsets: list[int] | None) -> str | None:
        if offsets is None:
            return None
        return json.dumps({"events": {str(number): value for number, value in enumerate(offsets)}})

    def _event(self, batch: tuple[float, float, list[int], list[int], list[int]]) -> dict[str, Any]:
        started_s, ended_s, first, end, latest = batch
        rows = round(self.reads * (sum(end) - sum(first)))
        took_ms = round(1000 * (ended_s - started_s))
        source = {
            "numInputRows": rows,
            "startOffset": json.loads(self._json(first) or "null") if sum(first) else None,
            "endOffset": json.loads(self._json(end) or "null"),
            "latestOffset": json.loads(self._json(latest) or "null") if self.reports_latest else None,
        }
        return {"durationMs": {"triggerExecution": took_ms, "addBatch": took_ms}, "sources": [source]}
