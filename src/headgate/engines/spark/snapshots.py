"""What Spark says of itself at one moment, as plain values: the seam between the JVM and the readings made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.types import Instant
from headgate.engines.spark.offsets import Offsets, Partition, numbers_in, partitions_of, records_by


@dataclass(frozen=True, slots=True)
class QuerySource:
    """One source of a query, as it was set up."""

    kind: str
    """As in ``readStream.format(…)``: kafka, rate, …"""
    options: Mapping[str, str] = field(default_factory=dict)
    readers: int = 1
    """Places of the query that read it, as both sides of a self-join do. Its records count once all the same."""

    def offsets(self, offset: object) -> Offsets | None:
        """The numbers in an offset of it, as text or parsed before; ``None`` where there is none, or it has none.

        Those of ``rate`` are seconds, which would pass for next to no records: they become the records given by then.
        """
        found = partitions_of(offset) if isinstance(offset, str) else numbers_in(offset)
        if found is None or self.kind != "rate":
            return found
        return {name: records_by(second, self.options) for name, second in found.items()}

    def first_offsets(self, end: Offsets | None) -> dict[Partition, float]:
        """Where its very first batch begins, which Spark does not tell; ``end`` is where that batch ends."""
        if self.kind == "kafka":
            begins = self.options.get("startingOffsets", "latest")
            if begins.strip().lower() == "latest":
                return dict(end or {})
            known = partitions_of(begins) or {}
            return {name: max(0.0, known.get(name, 0.0)) for name in end or {}}
        return dict.fromkeys(end or {}, 0.0)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a source says of itself, where it can be asked."""

    newest: Offsets | None = None
    """How far it has come by now; ``None`` where it cannot be asked, or does not answer yet."""
    past: tuple[tuple[Instant, Offsets], ...] = ()
    """How far it had come at some moments before, oldest first: told once, when it is asked for the first time."""


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A progress event: a batch has ended, or a trigger has found nothing to do for some time."""

    ended_s: Instant
    body: Mapping[str, Any]
    """Its JSON, parsed."""

    @property
    def has_rows(self) -> bool:
        """Whether anything was read."""
        return any(source["numInputRows"] for source in self.body["sources"])


@dataclass(frozen=True, slots=True)
class Query:
    """One streaming query. Offsets are JSON, one per source; ``None`` where there is none yet."""

    id: str
    run_id: str
    name: str
    trigger_interval_s: float
    """0: as fast as possible."""
    sources: tuple[QuerySource, ...]
    batch_id: int
    triggered_s: Instant | None
    """When the newest trigger began; its batch, if it found anything to do, is the one that runs or ran last."""
    start: tuple[str | None, ...] = ()
    """Where the batch of that trigger begins."""
    end: tuple[str | None, ...] = ()
    """Where it ends, once it is planned."""
    latest: tuple[str | None, ...] = ()
    """How far the sources had come when it was planned."""
    committed: tuple[str | None, ...] = ()
    """What is done."""
    progresses: tuple[QueryProgress, ...] = ()
    """What came since the last look, oldest first."""
    rows_at_once: float = math.inf
    """Rows that a task puts out at once: 1 where it works row by row, infinitely many where that is not known."""


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job that is running now."""

    id: int
    group: str
    """The run id of the query that it belongs to."""
    submitted_s: Instant
    tasks: int
    """Of its last stage, whose tasks put out results."""
    done_tasks: int
    """Of these."""
    widest_tasks: int
    """Of its widest stage that runs: how much can be done side by side."""
    active_tasks: int = 0
    """Of the last stage: those that run now."""
    running_s: tuple[float, ...] = ()
    """How long each of these, or of the first few of them, has been running; empty where that was not asked for."""
    mean_task_s: float | None = None
    """How long those that are done took."""
    done_rows: float | None = None
    """Rows that those that are done have read; ``None`` where that was not asked for."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What is worth asking of the tasks of a query's jobs, where each question has its price."""

    times: bool = False
    """Since when they run: they put out their rows while they do."""
    rows: bool = False
    """How many rows they have read: their partitions are uneven."""


@dataclass(frozen=True, slots=True)
class Executor:
    """What the status store knows of one executor."""

    id: str
    is_active: bool
    cores: int
    active_tasks: int
    completed_tasks: int
    cached_blocks: int
    busy_ms: int
    """Task time since the executor started; it grows when tasks end."""
    added_ms: int
    removed_ms: int | None
    is_excluded: bool = False
    """Spark gives it no tasks, because too many failed there."""
    is_leaving: bool = False
    """It is being decommissioned, by whomever."""
    profile: int = 0
    """Its resource profile; 0 is the one that all executors have where nobody asked for another."""
    memory: int = 0
    """Bytes for storage."""
    memory_used: int = 0
    gc_ms: int = 0
    failed_tasks: int = 0

    @property
    def can_work(self) -> bool:
        """Whether it could take a task now."""
        return self.is_active and not self.is_excluded and not self.is_leaving
