"""What Flink's REST API answers, as plain values: its spelling stays in this file."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

RUNNING = "RUNNING"
TERMINAL = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""States of a job from which it does not come back."""
KEYED = "HASH"
"""How records are given to subtasks that each have their share of the keys."""


def _known(value: object) -> object:
    """``None`` for a number that Flink does not know; it writes NaN as a text."""
    if isinstance(value, str):
        value = float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


Known: TypeAlias = Annotated[float | None, BeforeValidator(_known)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class JobEntry(_Answer):
    """One job of a cluster."""

    jid: str
    name: str
    state: str
    started_ms: int = Field(alias="start-time")


class Jobs(_Answer):
    jobs: tuple[JobEntry, ...]


class Work(_Answer):
    """What the subtasks of a vertex have done since they were started, all together, or what one of them has."""

    read: float = Field(alias="read-records")
    is_read_complete: bool = Field(alias="read-records-complete")
    written: float = Field(alias="write-records")
    is_written_complete: bool = Field(alias="write-records-complete")
    busy_ms: Known = Field(alias="accumulated-busy-time")
    idle_ms: Known = Field(alias="accumulated-idle-time")
    held_back_ms: Known = Field(alias="accumulated-backpressured-time")

    @property
    def is_complete(self) -> bool:
        """Whether every subtask has told of itself."""
        return self.is_read_complete and self.is_written_complete


class Vertex(_Answer):
    id: str
    name: str
    parallelism: int
    max_parallelism: int = Field(alias="maxParallelism")
    tasks: dict[str, int]
    """Subtasks by their state."""
    metrics: Work
    sharing_group: str = Field(alias="slotSharingGroupId", default="")

    @property
    def running(self) -> int:
        return self.tasks.get(RUNNING, 0)


class Input(_Answer):
    id: str
    ship_strategy: str = ""


class Node(_Answer):
    id: str
    inputs: tuple[Input, ...] = ()


class Plan(_Answer):
    nodes: tuple[Node, ...] = ()
    """Empty while the job waits for its first slots."""


class JobDetails(_Answer):
    jid: str
    name: str
    state: str
    now_ms: int = Field(alias="now")
    timestamps: dict[str, int]
    """When the job entered each of its states last; 0 where it never did."""
    vertices: tuple[Vertex, ...]
    plan: Plan

    @property
    def life(self) -> tuple[str, int]:
        """Changes whenever the job is started again, and every count begins anew with it."""
        return self.jid, self.timestamps.get(RUNNING, 0)

    @property
    def is_at_work(self) -> bool:
        """Whether every subtask runs."""
        whole = all(one.parallelism > 0 and one.running == one.parallelism for one in self.vertices)
        return self.state == RUNNING and bool(self.vertices) and whole


class Subtask(_Answer):
    number: int = Field(alias="subtask")
    status: str
    attempt: int
    metrics: Work
    lasting_ms: dict[str, int] = Field(alias="status-duration", default_factory=dict)
    """How long it has been, or was, in each of its states."""


class VertexDetails(_Answer):
    id: str
    now_ms: int = Field(alias="now")
    subtasks: tuple[Subtask, ...]


class Bounds(_Answer):
    lower: int = Field(alias="lowerBound")
    upper: int = Field(alias="upperBound")


class Required(_Answer):
    """What a vertex may have."""

    parallelism: Bounds


class TaskManager(_Answer):
    id: str
    slots: int = Field(alias="slotsNumber")
    free_slots: int = Field(alias="freeSlots")

    @property
    def is_free(self) -> bool:
        """Whether nothing runs on it."""
        return self.free_slots == self.slots


class TaskManagers(_Answer):
    taskmanagers: tuple[TaskManager, ...]


class MetricName(_Answer):
    id: str


class Aggregated(_Answer):
    """A metric over the subtasks of a vertex."""

    id: str
    min: Known = None
    max: Known = None
    avg: Known = None
    sum: Known = None


class Value(_Answer):
    """A metric of a job, or of one subtask, with its number before the name."""

    id: str
    value: str

    @property
    def number(self) -> float | None:
        try:
            return float(self.value)
        except ValueError:
            return None


class Completed(_Answer):
    """A checkpoint that is done."""

    lasting_ms: float = Field(alias="end_to_end_duration")


class Latest(_Answer):
    completed: Completed | None = None


class Checkpoints(_Answer):
    latest: Latest = Field(default_factory=Latest)


class Failures(_Answer):
    errors: tuple[str, ...]
