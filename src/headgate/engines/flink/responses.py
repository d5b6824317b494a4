"""The responses of Flink's REST API as typed values; Flink's spelling stays in this file."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

RUNNING = "RUNNING"
TERMINAL = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""States in which a job has ended for good."""
KEYED = "HASH"
"""The ship strategy of a stream that is partitioned by key."""


def _known(value: object) -> object:
    """Return ``None`` for a number that Flink does not know, which it writes as the text NaN."""
    if isinstance(value, str):
        value = float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


KnownNumber: TypeAlias = Annotated[float | None, BeforeValidator(_known)]


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class JobEntry(_Response):
    """One job of a cluster."""

    jid: str
    name: str
    state: str
    started_ms: int = Field(alias="start-time")


class JobList(_Response):
    jobs: tuple[JobEntry, ...]


class SubtaskWork(_Response):
    """The work of all subtasks of a vertex, or of one of them, since their start."""

    read: float = Field(alias="read-records")
    is_read_complete: bool = Field(alias="read-records-complete")
    written: float = Field(alias="write-records")
    is_written_complete: bool = Field(alias="write-records-complete")
    busy_ms: KnownNumber = Field(alias="accumulated-busy-time")
    idle_ms: KnownNumber = Field(alias="accumulated-idle-time")
    backpressured_ms: KnownNumber = Field(alias="accumulated-backpressured-time")

    @property
    def is_complete(self) -> bool:
        """Whether every subtask has reported."""
        return self.is_read_complete and self.is_written_complete


class Vertex(_Response):
    id: str
    name: str
    parallelism: int
    max_parallelism: int = Field(alias="maxParallelism")
    tasks: dict[str, int]
    """Subtasks by their state."""
    metrics: SubtaskWork
    sharing_group: str = Field(alias="slotSharingGroupId", default="")

    @property
    def running(self) -> int:
        return self.tasks.get(RUNNING, 0)


class NodeInput(_Response):
    id: str
    ship_strategy: str = ""


class PlanNode(_Response):
    id: str
    inputs: tuple[NodeInput, ...] = ()


class JobPlan(_Response):
    nodes: tuple[PlanNode, ...] = ()
    """Empty while the job waits for its first slots."""


class JobDetails(_Response):
    jid: str
    name: str
    state: str
    now_ms: int = Field(alias="now")
    timestamps: dict[str, int]
    """When the job last entered each state; 0 if never."""
    vertices: tuple[Vertex, ...]
    plan: JobPlan

    @property
    def life(self) -> tuple[str, int]:
        """The job's id and start, which change with every restart; Flink resets all counters then."""
        return self.jid, self.timestamps.get(RUNNING, 0)

    @property
    def is_at_work(self) -> bool:
        """Whether every subtask runs."""
        whole = all(vertex.parallelism > 0 and vertex.running == vertex.parallelism for vertex in self.vertices)
        return self.state == RUNNING and bool(self.vertices) and whole


class Subtask(_Response):
    number: int = Field(alias="subtask")
    status: str
    attempt: int
    metrics: SubtaskWork
    lasting_ms: dict[str, int] = Field(alias="status-duration", default_factory=dict)
    """Milliseconds spent in each state."""


class VertexDetails(_Response):
    id: str
    now_ms: int = Field(alias="now")
    subtasks: tuple[Subtask, ...]


class ParallelismBounds(_Response):
    lower: int = Field(alias="lowerBound")
    upper: int = Field(alias="upperBound")


class VertexRequirement(_Response):
    """The parallelism that a vertex may have."""

    parallelism: ParallelismBounds


class TaskManagerEntry(_Response):
    id: str
    slots: int = Field(alias="slotsNumber")
    free_slots: int = Field(alias="freeSlots")

    @property
    def is_free(self) -> bool:
        """Whether nothing runs on it."""
        return self.free_slots == self.slots


class TaskManagerList(_Response):
    taskmanagers: tuple[TaskManagerEntry, ...]


class MetricName(_Response):
    id: str


class AggregatedMetric(_Response):
    """A metric over the subtasks of a vertex."""

    id: str
    sum: KnownNumber = None


class MetricValue(_Response):
    """A metric of a job, or of one subtask, whose name then begins with the subtask's number."""

    id: str
    value: str

    @property
    def number(self) -> float | None:
        try:
            return float(self.value)
        except ValueError:
            return None


class CompletedCheckpoint(_Response):
    """A completed checkpoint."""

    lasting_ms: float = Field(alias="end_to_end_duration")


class LatestCheckpoints(_Response):
    completed: CompletedCheckpoint | None = None


class Checkpoints(_Response):
    latest: LatestCheckpoints = Field(default_factory=LatestCheckpoints)


class ErrorResponse(_Response):
    errors: tuple[str, ...]
