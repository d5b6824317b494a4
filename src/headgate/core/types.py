"""The values that travel through one control cycle, all frozen.

An engine gives an :class:`Observation`; a policy turns the window of observations into a :class:`Proposal`; guards
turn that into a :class:`Decision`; the engine answers with a :class:`Receipt`. A metric that is not known is ``None``,
never 0. Times are seconds on the loop's clock, and every name carries its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

Instant: TypeAlias = float
"""Seconds on the loop's clock: since the Unix epoch when live, since the start of the run when simulated."""

JSON: TypeAlias = Any
"""What ``json.dumps`` takes: the only form in which learned state leaves a policy."""

Number: TypeAlias = float | int | str | None
"""One of the numbers behind a reason (a word, such as a state's name, counts too)."""

NO_NUMBERS: Mapping[str, Number] = MappingProxyType({})
NO_METRICS: Mapping[str, float | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one operator.

    For micro-batches, ``latency_s`` is scheduling delay + processing time of the newest batch: how long after it was
    due a record's result came out. The delay is what the oldest record of the batch waited beyond one trigger interval.
    """

    operator: str
    at_s: Instant
    """When the reading was taken: the end of the batch it describes, not the time it was asked for."""
    input_rate_per_s: float | None = None
    """Records offered per second, whether or not they were admitted yet."""
    processed_rate_per_s: float | None = None
    """Records per second that the operator got through while it was busy with them."""
    backlog: float | None = None
    """Records that have arrived and are not processed yet."""
    latency_s: float | None = None
    processing_time_s: float | None = None
    scheduling_delay_s: float | None = None
    trigger_interval_s: float | None = None
    utilization: float | None = None
    """Busy share of the ready instances, 0 to 1."""
    warming: bool = False
    """The reading was made while instances were joining, leaving or warming up: true, but not typical of this size."""
    metrics: Mapping[str, float | None] = field(default_factory=lambda: NO_METRICS)
    """Further metrics by name, for those who subscribed to them."""

    def metric(self, name: str) -> float | None:
        """A metric by name: one of the fields above, or one of ``metrics``."""
        if name in METRIC_FIELDS:
            value: float | None = getattr(self, name)
            return value
        return self.metrics.get(name)


METRIC_FIELDS = (
    "input_rate_per_s",
    "processed_rate_per_s",
    "backlog",
    "latency_s",
    "processing_time_s",
    "scheduling_delay_s",
    "trigger_interval_s",
    "utilization",
)
"""The metrics every engine knows by the same name; an engine that cannot measure one says ``None``."""


@dataclass(frozen=True, slots=True)
class Instances:
    """How many instances of one operator there are; the three are kept apart because they differ while it matters."""

    planned: int
    """What the last decision asked for."""
    requested: int
    """What the engine has asked its cluster for."""
    ready: int
    """What can take work now; instances that are draining do not count."""

    @property
    def pending(self) -> int:
        """Instances still to come (positive) or still to go (negative)."""
        return self.planned - self.ready


@dataclass(frozen=True, slots=True)
class Observation:
    """The samples of one instant. An operator without a new reading has no sample."""

    at_s: Instant
    samples: Mapping[str, Sample]
    instances: Mapping[str, Instances]


@dataclass(frozen=True, slots=True)
class Target:
    """The size a policy wants for one operator, and why."""

    instances: int
    code: str
    """Stable and short, for machines: ``slo-violated``, ``no-data``, ``steady``."""
    reason: str
    """One sentence for people."""
    numbers: Mapping[str, Number] = field(default_factory=lambda: NO_NUMBERS)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a policy wants for every operator it has an opinion on."""

    targets: Mapping[str, Target]


@dataclass(frozen=True, slots=True)
class GuardNote:
    """What one guard did to one operator's target. ``before == after`` means that it let the target pass."""

    guard: str
    before: int
    after: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is decided for one operator: the policy's target, and what the guards left of it."""

    operator: str
    current: int
    """Planned instances before this decision."""
    proposed: int
    target: int
    code: str
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: NO_NUMBERS)
    notes: tuple[GuardNote, ...] = ()

    @property
    def change(self) -> int:
        """Instances to add (positive) or to remove (negative)."""
        return self.target - self.current


@dataclass(frozen=True, slots=True)
class Decision:
    """One cycle's outcome, holds included."""

    at_s: Instant
    policy: str
    verdicts: Mapping[str, Verdict]

    @property
    def targets(self) -> dict[str, int]:
        return {name: verdict.target for name, verdict in self.verdicts.items()}

    @property
    def is_hold(self) -> bool:
        return all(verdict.target == verdict.current for verdict in self.verdicts.values())


class Outcome(StrEnum):
    """What the engine did with a decision."""

    UNCHANGED = "unchanged"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The engine's answer to a decision; the effect itself is seen in later observations."""

    at_s: Instant
    outcome: Outcome
    requested: Mapping[str, int]
    """Instances asked of the cluster per operator, after this decision."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the loop itself: a start, a stop, a failure, a switch of mode or policy."""

    at_s: Instant
    kind: str
    """Short and stable: ``started``, ``observe-failed``, ``policy-failed``, ``stopped``."""
    detail: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: NO_NUMBERS)


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a control loop: what it was asked to do, with what."""

    started_s: Instant
    policy: str
    settings: Mapping[str, JSON]
    objective: str
    engine: str
    operators: tuple[str, ...]
    seed: int = 0
