"""Snapshots of a job: all that samples are made of, with the age of the metrics.

Flink fetches metrics from its TaskManagers only when they are requested, and answers with the previous ones. So a
snapshot requests them once to have them fetched, and again until they are new. The job's uptime is one of them, and
gives the age of the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from headgate.core.types import Instant
from headgate.engines.flink.graph import Graph, GraphVertex
from headgate.engines.flink.job import NamedJob
from headgate.engines.flink.responses import RUNNING, JobDetails, Subtask, SubtaskWork
from headgate.engines.flink.rest import FlinkRest

FRESH_S = 1.0
"""Metrics that are younger than this count as current."""
TRIES, PAUSE_S = 6, 0.2
REFRESH_NAMES_EVERY_S = 30.0
"""A source may register metrics only once it has read something, and may find added partitions later."""
SETTLED_S = 15.0
"""For this long after the start of a job, its sources may not have registered all metrics."""
UPTIME = "uptime"
PENDING = ".pendingRecords"
READ = ".numRecordsOut"
"""Of the reading operator: the records that it has passed on to the rest of its chain."""
SOURCE = "Source__"
PARTITION = re.compile(r"\.topic\.(.+)\.partition\.(\d+)\.")
"""In the names of metrics per partition, as Kafka's source has them."""


@dataclass(frozen=True)
class SourceWork:
    """The records that a source has read since its start and those that wait; ``None`` where not reported."""

    read: float | None = None
    pending: float | None = None
    partitions: int | None = None
    """Instances beyond this number have nothing to read, and hold up event time."""


@dataclass(frozen=True)
class _MetricNames:
    """The names of a source's metrics."""

    requested_s: Instant
    counts: tuple[str, ...]
    partitions: frozenset[tuple[str, str]]
    """Topic and number of each known partition; none is ever removed."""
    is_settled: bool
    """Whether all had been registered at the time of the request."""


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment."""

    at_s: Instant
    job: JobDetails
    age_s: float = 0.0
    """The age of the metrics."""
    sources: Mapping[str, SourceWork] = field(default_factory=dict)
    subtasks: Mapping[str, tuple[Subtask, ...]] = field(default_factory=dict)
    """Of operators with several subtasks."""

    @property
    def is_ready(self) -> bool:
        """Whether every subtask runs and has reported. If not, there are no samples, and that is no fault."""
        return self.job.is_at_work and all(vertex.metrics.is_complete for vertex in self.job.vertices)


class SnapshotReader:
    """Takes snapshots of one job, and caches the names of its sources' metrics."""

    def __init__(
        self,
        rest: FlinkRest,
        followed: NamedJob,
        now: Callable[[], Instant],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rest = rest
        self._followed = followed
        self._now = now
        self._sleep = sleep
        self._names: dict[tuple[str, str], _MetricNames] = {}
        """By job and vertex."""

    def take(self, graph: Graph, job: JobDetails) -> JobSnapshot:
        """Take a snapshot; ``job`` is its state just before."""
        age_s = self._refresh(job)
        job = self._followed.details(self._now())
        at_s = self._now()
        if not job.is_at_work:
            return JobSnapshot(at_s, job, age_s)
        upstream = {target for _, target in graph.streams}
        sources = {
            member.operator: self._source(job, member) for member in graph.members if member.operator not in upstream
        }
        several = {name: vertex.id for name, vertex in graph.vertices(job).items() if vertex.parallelism > 1}
        subtasks = {name: self._rest.vertex(job.jid, vertex).subtasks for name, vertex in several.items()}
        return JobSnapshot(at_s, job, age_s, sources, subtasks)

    def _refresh(self, job: JobDetails) -> float:
        """Have Flink fetch the metrics, and return their age in seconds."""
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

    def _source(self, job: JobDetails, member: GraphVertex) -> SourceWork:
        names = self._source_names(job, member.vertex)
        partitions = len(names.partitions) or None
        if not names.counts:
            return SourceWork(partitions=partitions)
        found = self._rest.metrics(job.jid, member.vertex, names.counts)
        if len(found) < len(names.counts):
            # A name that is gone empties the whole answer; all names are requested again next time.
            self._names[job.jid, member.vertex] = replace(names, counts=())
        read = [value.sum for name, value in found.items() if name.endswith(READ) and value.sum is not None]
        pending = [value.sum for name, value in found.items() if name.endswith(PENDING) and value.sum is not None]
        return SourceWork(sum(read) if read else None, max(0.0, sum(pending)) if pending else None, partitions)

    def _source_names(self, job: JobDetails, vertex: str) -> _MetricNames:
        now = self._now()
        known = self._names.get((job.jid, vertex))
        if (
            known is not None
            and known.counts
            and known.is_settled
            and 0 <= now - known.requested_s < REFRESH_NAMES_EVERY_S
        ):
            return known
        names = self._rest.metric_names(job.jid, vertex)
        counts = tuple(sorted(name for name in names if name.startswith(SOURCE) and name.endswith((READ, PENDING))))
        partitions = frozenset((match[1], match[2]) for name in names if (match := PARTITION.search(name)))
        if known is not None:
            partitions |= known.partitions
        found = _MetricNames(now, counts, partitions, job.now_ms - job.life[1] >= 1000 * SETTLED_S)
        of_job = {key: cached for key, cached in self._names.items() if key[0] == job.jid}
        self._names = of_job | {(job.jid, vertex): found}
        return found


WATERMARK_LAG = "watermark_lag_s"
CHECKPOINT = "checkpoint_s"
BACK_PRESSURED = "back_pressured_share"
IDLE = "idle_share"
OPTIONAL_METRICS = frozenset({WATERMARK_LAG, CHECKPOINT, BACK_PRESSURED, IDLE})


class OptionalMetrics:
    """Metrics that are measured only when subscribed to, because each takes more requests.

    ``watermark_lag_s`` is how far an operator's event time is behind; ``checkpoint_s`` how long the last checkpoint of
    the job took; ``back_pressured_share`` and ``idle_share`` are shares of an operator's time since its start.
    """

    def __init__(self, rest: FlinkRest) -> None:
        self._rest = rest
        self._wanted: frozenset[str] = frozenset()

    @property
    def is_wanted(self) -> bool:
        return bool(self._wanted)

    def subscribe(self, keys: Collection[str]) -> None:
        self._wanted = OPTIONAL_METRICS & frozenset(keys)

    def of(self, job: JobDetails, graph: Graph, samples: Collection[str]) -> dict[str, Mapping[str, float | None]]:
        checkpoint_s = self._checkpoint_s(job.jid) if CHECKPOINT in self._wanted else None
        found: dict[str, Mapping[str, float | None]] = {}
        vertices = graph.vertices(job)
        for name in samples:
            values: dict[str, float | None] = {}
            if CHECKPOINT in self._wanted:
                values[CHECKPOINT] = checkpoint_s
            if WATERMARK_LAG in self._wanted:
                values[WATERMARK_LAG] = self._watermark_lag_s(job, graph.by_operator[name].vertex)
            spent = vertices[name].metrics if name in vertices else None
            for key in (BACK_PRESSURED, IDLE):
                if key in self._wanted:
                    values[key] = None if spent is None else _share(spent, key)
            found[name] = values
        return found

    def _checkpoint_s(self, job: str) -> float | None:
        completed = self._rest.checkpoints(job).latest.completed
        return None if completed is None else completed.lasting_ms / 1000

    def _watermark_lag_s(self, job: JobDetails, vertex: str) -> float | None:
        marks_ms = self._rest.watermarks_ms(job.jid, vertex)
        return max(0.0, (job.now_ms - min(marks_ms)) / 1000) if marks_ms else None


def _share(work: SubtaskWork, key: str) -> float | None:
    """Return the share of backpressured or idle time; ``None`` where Flink does not know the busy time."""
    backpressured_ms, idle_ms = work.backpressured_ms or 0.0, work.idle_ms or 0.0
    total_ms = 0.0 if work.busy_ms is None else work.busy_ms + backpressured_ms + idle_ms
    return (backpressured_ms if key == BACK_PRESSURED else idle_ms) / total_ms if total_ms > 0 else None
