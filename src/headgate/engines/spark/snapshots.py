"""The state of Spark at one moment as plain values: the seam between the JVM and the readings made from it.

An offset is JSON of the source's own making: a number, or numbers by topic and partition. Each number is a *partition*
here, known by its path.

>>> partitions_of('{"events": {"0": 503, "1": 498}}')
{('events', '0'): 503.0, ('events', '1'): 498.0}
"""

from __future__ import annotations

import functools
import json
import math
import re
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headgate.core.errors import InputError
from headgate.core.types import Instant
from headgate.core.units import parse_duration_s

Partition: TypeAlias = tuple[str, ...]
Offsets: TypeAlias = Mapping[Partition, float]
"""How far a source has come, in each of its partitions."""

_NOT_COUNTED = frozenset({"timestamp"})
"""Keys of offsets whose numbers count no records (rate-micro-batch has one)."""
_RECORD_BY_RECORD = frozenset({"kafka", "headgate-load", "headgate-records", "rate", "rate-micro-batch"})
"""Sources whose offset moves on by one for each record, or by more than one where there are gaps; that of ``rate`` does
once its seconds were made records of (``rate_source.py``)."""
_COUNTED = set(_RECORD_BY_RECORD)
"""Sources whose offsets count. Of any other, only offsets of the shape that Kafka's have are taken for counters: the
numbers may be versions, indexes or batches, as those of Delta and of files are."""
_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
"""Sources of files, which give all there are to the next batch where no option limits it."""
_LIMIT = re.compile(r"max\w*per", re.IGNORECASE)
"""The names of options that limit a batch: maxFilesPerTrigger, maxBytesPerTrigger and the like."""
_MAX_RATIOS = 15


@functools.lru_cache(maxsize=64)
def partitions_of(offset: str | None) -> Offsets | None:
    """The numbers in an offset as text; ``None`` where there is no offset, or it has no numbers.

    The end of a batch is the start of the next one, and is looked at again and again while it runs.
    """
    if not offset:
        return None
    try:
        return numbers_in(json.loads(offset))
    except ValueError:
        return None


def numbers_in(offset: object) -> Offsets | None:
    """The numbers in an offset that was parsed before; ``None`` where there are none."""
    found: dict[Partition, float] = {}
    _collect(offset, (), found)
    return found or None


def _collect(part: object, path: Partition, found: dict[Partition, float]) -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            if key not in _NOT_COUNTED:
                _collect(value, (*path, key), found)
    elif type(part) is int or type(part) is float:  # Truth values are no numbers here.
        found[path] = float(part)


def register_counted(kind: str) -> None:
    """Take the numbers in the offsets of a source for counters from now on."""
    _COUNTED.add(kind)


def _is_by_partition(offset: object) -> bool:
    """Whether an offset has a number for each of the numbered partitions of each of its topics.

    >>> _is_by_partition({"events": {"0": 503, "1": 498}}), _is_by_partition({"reservoirVersion": 4, "index": -1})
    (True, False)
    """
    return (
        isinstance(offset, dict)
        and bool(offset)
        and all(
            isinstance(partitions, dict)
            and bool(partitions)
            and all(str(key).isdigit() and type(value) is int for key, value in partitions.items())
            for partitions in offset.values()
        )
    )


def distance(start: Offsets, end: Offsets) -> float:
    """How far it is from one offset to another, over all partitions; one that is new counts from its start."""
    return sum(max(0.0, reached - start.get(name, 0.0)) for name, reached in end.items())


class RecordsPerOffset:
    """How many records there are per step of a source's offset, learned from its batches.

    Rows that Spark has *read* are not the same: a ``foreachBatch`` that looks whether there is anything and then
    writes reads some records twice. Transactional and compacted topics have fewer records than offsets. What most of
    the last batches say counts, so that an odd one changes nothing.
    """

    def __init__(self, source: str) -> None:
        self._most = 1.0 if source in _RECORD_BY_RECORD else float("inf")
        self._ratios: deque[float] = deque(maxlen=_MAX_RATIOS)

    @property
    def value(self) -> float:
        return min(self._most, statistics.median(self._ratios)) if self._ratios else 1.0

    def learn(self, rows: float, steps: float) -> None:
        """Take in the rows that a batch has read, and the steps that its offset has moved on."""
        if rows > 0 and steps > 0:
            self._ratios.append(rows / steps)


def records_by(second: float, options: Mapping[str, str]) -> float:
    """Records that the source has given by an offset of so many seconds."""
    given = {key.lower(): value for key, value in options.items()}
    rate_per_s = _whole(given.get("rowspersecond", "1"))
    ramp_s = _whole(given.get("rampuptime", "0"))
    ramped_s = min(second, ramp_s)
    return rate_per_s // (ramp_s + 1) * ramped_s * (ramped_s + 1) / 2 + (second - ramped_s) * rate_per_s


def _whole(text: str) -> int:
    # Spark has refused by now what it does not understand; what it does and we do not, such as 100us, is next to none.
    try:
        return int(parse_duration_s(text))
    except InputError:
        return 0


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The configuration of one source of a query."""

    kind: str
    """As in ``readStream.format(…)``: kafka, rate, …"""
    options: Mapping[str, str] = field(default_factory=dict)
    readers: int = 1
    """Places of the query that read it, as both sides of a self-join do. Its records count once all the same."""
    files_per_batch: int | None = None
    """The most files of a batch, of a source of files that limits them."""

    @property
    def leaves_behind(self) -> bool:
        """Whether its batches may leave records behind that no offset tells of."""
        limited = any(_LIMIT.match(name) for name in self.options)
        return limited or not (self.kind in _COUNTED or self.kind.lower() in _FILE_FORMATS)

    def offsets(self, offset: object) -> Offsets | None:
        """The counters in an offset of it, as text or parsed before; ``None`` where there are none that count.

        Those of ``rate`` are seconds, which would pass for next to no records: they become the records given by then.
        """
        if self.kind not in _COUNTED and not _is_by_partition(_parsed(offset)):
            return None
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


def _parsed(offset: object) -> object:
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """The files that a source has found and not given to a batch yet."""

    count: int
    oldest_s: Instant | None
    """When the first of them was written; ``None`` where there is none."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The report of a source, where it offers a way to get one."""

    newest: Offsets | None = None
    """Its latest offsets; ``None`` where it offers no way to get them, or has not answered yet."""
    past: tuple[tuple[Instant, Offsets], ...] = ()
    """Its latest offsets at some earlier moments, oldest first; only in its first report."""


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
    """Events since the last look, oldest first."""
    files: tuple[WaitingFiles | None, ...] = ()
    """What waits at sources of files; ``None`` for other sources, and where it is not known."""
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
    """How long each of these, or of the first few of them, has been running; empty where that was not requested."""
    mean_task_s: float | None = None
    """How long those that are done took."""
    done_rows: float | None = None
    """Rows that those that are done have read; ``None`` where that was not requested."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What to read of the tasks of a query's jobs; each costs calls into the JVM."""

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
    """It is being decommissioned, by Headgate or by anybody else."""
    profile: int = 0
    """Its resource profile; 0 is the default."""
    memory: int = 0
    """Bytes for storage."""
    memory_used: int = 0
    gc_ms: int = 0
    failed_tasks: int = 0
    removed_why: str = ""
    """What Spark says of its end."""

    @property
    def can_work(self) -> bool:
        """Whether it could take a task now."""
        return self.is_active and not self.is_excluded and not self.is_leaving
