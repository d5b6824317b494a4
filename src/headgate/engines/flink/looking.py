"""One look at a job: all that a reading is made of, with its age.

Flink fetches metrics from its TaskManagers only when somebody asks for them, and answers with those of the time before.
So a look asks once to have them fetched, and again until they are new. How long the job has been running is such a
metric too, and tells how old the others are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headgate.core.types import Instant
from headgate.engines.flink.answers import RUNNING, JobDetails, Subtask
from headgate.engines.flink.following import Followed
from headgate.engines.flink.graph import Graph, Member
from headgate.engines.flink.rest import FlinkRest

FRESH_S = 1.0
"""Metrics that are younger than this are those of now."""
TRIES, PAUSE_S = 6, 0.2
ASK_NAMES_EVERY_S = 30.0
"""A source may register what it can tell only when it has read something, and finds partitions that are added."""
SETTLED_S = 15.0
"""As long after a job was started, its sources may not have registered all that they can tell."""
UPTIME = "uptime"
PENDING = ".pendingRecords"
READ = ".numRecordsOut"
"""Of the operator that reads: what it has given to the rest of its chain."""
SOURCE = "Source__"
PARTITION = re.compile(r"\.topic\.(.+)\.partition\.(\d+)\.")
"""In the names of what a source tells of each partition of its topics, as Kafka's does."""


@dataclass(frozen=True)
class SourceWork:
    """What a source has read since it was started, and what waits there; ``None`` where that is not told."""

    read: float | None = None
    pending: float | None = None
    partitions: int | None = None
    """In so many pieces records come: an instance beyond them has nothing to read, and holds up event time."""


@dataclass(frozen=True)
class _Names:
    """By which a source tells of itself."""

    asked_s: Instant
    counts: tuple[str, ...]
    partitions: frozenset[tuple[str, str]]
    """Topic and number of each that is known; they only become more."""
    is_settled: bool
    """Whether all had been registered when they were asked for."""


@dataclass(frozen=True)
class Look:
    """A job at one moment."""

    at_s: Instant
    job: JobDetails
    age_s: float = 0.0
    """How old the metrics are."""
    sources: Mapping[str, SourceWork] = field(default_factory=dict)
    subtasks: Mapping[str, tuple[Subtask, ...]] = field(default_factory=dict)
    """Of operators that have several."""

    @property
    def is_ready(self) -> bool:
        """Whether every subtask runs and has told of itself: otherwise there is nothing to read, and nothing wrong."""
        return self.job.is_at_work and all(one.metrics.is_complete for one in self.job.vertices)


class Looking:
    """Looks at one job, and remembers by which names its sources tell of themselves."""

    def __init__(
        self,
        rest: FlinkRest,
        followed: Followed,
        now: Callable[[], Instant],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rest = rest
        self._followed = followed
        self._now = now
        self._sleep = sleep
        self._names: dict[tuple[str, str], _Names] = {}
        """By job and vertex."""

    def look(self, graph: Graph, job: JobDetails) -> Look:
        """``job`` is what was seen of it just now."""
        age_s = self._freshened_s(job)
        job = self._followed.details(self._now())
        at_s = self._now()
        if not job.is_at_work:
            return Look(at_s, job, age_s)
        upstream = {target for _, target in graph.streams}
        sources = {one.operator: self._source(job, one) for one in graph.members if one.operator not in upstream}
        several = [one for one in job.vertices if one.parallelism > 1 and one.id in graph.by_vertex]
        subtasks = {graph.by_vertex[one.id].operator: self._rest.vertex(job.jid, one.id).subtasks for one in several}
        return Look(at_s, job, age_s, sources, subtasks)

    def _freshened_s(self, job: JobDetails) -> float:
        """Have metrics fetched, and give how old they are then."""
        age_s, began_s = 0.0, self._now()
        self._rest.job_metrics(job.jid, [UPTIME])
        for _ in range(TRIES):
            self._sleep(PAUSE_S)
            uptime_ms = self._rest.job_metrics(job.jid, [UPTIME]).get(UPTIME)
            if uptime_ms is None:
                continue
            since_ms = job.now_ms - job.timestamps.get(RUNNING, job.now_ms)
            age_s = max(0.0, (since_ms - uptime_ms) / 1000 + self._now() - began_s)
            if age_s <= FRESH_S:
                break
        return age_s

    def _source(self, job: JobDetails, one: Member) -> SourceWork:
        names = self._source_names(job, one.vertex)
        partitions = len(names.partitions) or None
        if not names.counts:
            return SourceWork(partitions=partitions)
        found = self._rest.metrics(job.jid, one.vertex, names.counts)
        if len(found) < len(names.counts):
            # One that is not there any more empties the answer: they are asked for anew the next time.
            self._names[job.jid, one.vertex] = replace(names, counts=())
        read = [value.sum for name, value in found.items() if name.endswith(READ) and value.sum is not None]
        pending = [value.sum for name, value in found.items() if name.endswith(PENDING) and value.sum is not None]
        return SourceWork(sum(read) if read else None, max(0.0, sum(pending)) if pending else None, partitions)

    def _source_names(self, job: JobDetails, vertex: str) -> _Names:
        now = self._now()
        known = self._names.get((job.jid, vertex))
        if known is not None and known.counts and known.is_settled and 0 <= now - known.asked_s < ASK_NAMES_EVERY_S:
            return known
        told = self._rest.metric_names(job.jid, vertex)
        counts = tuple(sorted(name for name in told if name.startswith(SOURCE) and name.endswith((READ, PENDING))))
        partitions = frozenset((found[1], found[2]) for name in told if (found := PARTITION.search(name)))
        if known is not None:
            partitions |= known.partitions
        names = _Names(now, counts, partitions, job.now_ms - job.life[1] >= 1000 * SETTLED_S)
        self._names = {key: kept for key, kept in self._names.items() if key[0] == job.jid} | {(job.jid, vertex): names}
        return names
