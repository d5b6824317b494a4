"""The values that travel through one control cycle, all frozen.

An engine gives an :class:`Observation`; a policy turns the window of observations into a :class:`Proposal`; guards
turn that into a :class:`Decision`; the engine answers with a :class:`Receipt`. A metric that is not known is ``None``,
never 0. Times are seconds on the loop's clock, and every name carries its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from headgate.core.units import printable

Instant: TypeAlias = float
"""Seconds on the loop's clock: since the Unix epoch when live, since the start of the run when simulated."""

JSON: TypeAlias = Any
"""What ``json.dumps`` takes: the only form in which learned state leaves a policy."""

Number: TypeAlias = float | int | str | None
"""One of the numbers behind a reason (a word, such as a state's name, counts too)."""

NO_NUMBERS: Mapping[str, Number] = MappingProxyType({})
NO_METRICS: Mapping[str, float | None] = MappingProxyType({})
NO_STARTUPS: Mapping[str, tuple[Startup, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that has ended. Policies learn how long work takes from batches, not from readings."""

    started_s: Instant
    ended_s: Instant
    records: float
    oldest_s: Instant | None = None
    """When the oldest of its records arrived; ``None`` when that is not known."""
    late: float | None = None
    """Records whose result was later than the objective allows."""
    trigger_interval_s: float = 0.0
    """0: a batch follows the one before it as fast as possible."""
    instances: int | None = None
    """Instances that could take work when it ended."""
    warming: bool = False
    """Instances joined, left or warmed up meanwhile: the values are correct but not typical of this size."""
    query: str = ""
    """Which of several queries it belongs to."""

    @property
    def processing_time_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def latency_s(self) -> float:
        """How long the oldest record waited until it was processed; at least the processing time."""
        return self.ended_s - (self.started_s if self.oldest_s is None else min(self.oldest_s, self.started_s))

    @property
    def scheduling_delay_s(self) -> float:
        """How long the oldest of its records waited for the start, beyond one trigger interval."""
        return max(0.0, self.latency_s - self.processing_time_s - self.trigger_interval_s)


@dataclass(frozen=True, slots=True)
class Startup:
    """How long an instance took to be of use, counted from the request for it."""

    instance: str
    requested_s: Instant
    registered_after_s: float
    first_task_after_s: float | None = None
    """Until it had done its first task; ``None`` when it got none while it was watched."""
    warm_after_s: float | None = None
    """Until the first batch after it was no longer cold."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one operator: its state at ``at_s``.

    What an engine knows for certain are counters since some start of its own, and gauges as of now. Rates and
    utilization are differences, which the window makes (``core/window.py``) where an engine does not give them, so
    that a lost reading costs resolution and nothing else.
    """

    operator: str
    at_s: Instant
    """When the reading was taken."""
    age_s: float = 0.0
    """Age of the newest source offset that the reading uses; 0 where the source has just reported it."""

    # Counters, since a start that may be any: only differences mean something.
    arrived: float | None = None
    """Records that have been offered, whether or not they were admitted yet. After an estimate that was too high it
    stands still until as many have arrived; ``backlog`` and ``input_rate_per_s`` are corrected at once."""
    given: float | None = None
    """Records that upstream operators have handed over, where backpressure makes that less than what has arrived.
    ``None``: all that has arrived."""
    done: float | None = None
    """Records that the operator has processed."""
    emitted: float | None = None
    """Records that the operator has given to those downstream of it."""
    late: float | None = None
    """Records whose result was, or will be, later than the objective allows."""
    busy_s: float | None = None
    """Seconds that slots of instances were busy, of the batches that have ended."""
    available_s: float | None = None
    """Seconds that there were slots, up to the same moment as ``busy_s``."""
    paused_s: float | None = None
    """Seconds that the job stood still because its size was changed, where the engine measures that."""
    batches: tuple[Batch, ...] = ()
    """The batches that ended since the reading before this one, oldest first."""

    # Gauges, as of now.
    backlog: float | None = None
    """Records that have arrived and are not done yet."""
    latency_s: float | None = None
    """What the oldest record that is not done yet has waited so far; 0 when none waits."""
    running_s: float | None = None
    """How long the running batch has been running; ``None`` when none runs."""
    batch_ended_s: Instant | None = None
    """When the newest batch ended; ``None`` where there are no batches, or none has ended yet."""
    useful_instances: int | None = None
    """More instances than this cannot help, for there is not enough work to be done side by side."""
    skew: float | None = None
    """Backlog of the fullest partition over that of a mean one; 1 when all are alike."""

    # Of the newest batch, or of the last span between two readings.
    input_rate_per_s: float | None = None
    """Records offered per second, whether or not they were admitted yet."""
    processed_rate_per_s: float | None = None
    """Records per second that the operator got through while it was busy with them."""
    output_rate_per_s: float | None = None
    """Records per second given to those downstream."""
    processing_time_s: float | None = None
    scheduling_delay_s: float | None = None
    """How long the oldest record of the newest batch waited for its start, beyond one trigger interval."""
    trigger_interval_s: float | None = None
    utilization: float | None = None
    """Busy share of the ready instances, 0 to 1."""
    warming: bool = False
    """Instances were joining, leaving or warming up: the values are correct but not typical of this size."""
    metrics: Mapping[str, float | None] = field(default_factory=lambda: NO_METRICS)
    """Subscribed metrics by name."""
    parts: Mapping[str, Sample] = field(default_factory=lambda: NO_PARTS)
    """A reading of each part, where an operator has several: the streaming queries of one Spark application."""

    @property
    def measured_s(self) -> Instant:
        """Time of the newest measurement: the end of the newest batch, or the reading itself where there is none.

        A reading is taken at every tick, but only a new batch shows what the operator can do. An idle operator has
        nothing newer than the reading.
        """
        return self.at_s if self.batch_ended_s is None or self.is_idle else self.batch_ended_s

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, nothing waits, and nothing has arrived since the previous reading."""
        quiet = self.running_s is None and self.backlog == 0 and self.input_rate_per_s == 0
        return quiet and not any(batch.records for batch in self.batches)

    @property
    def worst_latency_s(self) -> float | None:
        """The longest wait of any record since the previous reading, waits that still last included."""
        latencies_s = [batch.latency_s for batch in self.batches if batch.records]
        if self.latency_s is not None:
            latencies_s.append(self.latency_s)
        return max(latencies_s, default=None)

    @property
    def total_latency_s(self) -> float | None:
        """Scheduling delay plus processing time of the newest batch, or how long the running one has run if that is
        longer (azimi's latency, which leaves out the wait for the trigger); the worst latency where these are not
        known."""
        if self.scheduling_delay_s is None or self.processing_time_s is None:
            return self.worst_latency_s
        return max(self.scheduling_delay_s + self.processing_time_s, self.running_s or 0.0)

    @property
    def selectivity(self) -> float | None:
        """Records given downstream per record done; ``None`` before there were any."""
        return self.emitted / self.done if self.emitted is not None and self.done else None

    def metric(self, name: str) -> float | None:
        """A metric by name: one of the fields above, or one of ``metrics``.

        The latency is the worst since the previous reading; the present one may be small after a batch.
        """
        if name == "latency_s":
            return self.worst_latency_s
        if name in METRIC_FIELDS:
            value: float | None = getattr(self, name)
            return value
        return self.metrics.get(name)


NO_PARTS: Mapping[str, Sample] = MappingProxyType({})

COUNTERS = ("arrived", "given", "done", "emitted", "late", "busy_s", "available_s", "paused_s")
"""The fields of a sample that only grow; only their differences mean something."""

METRIC_FIELDS = (
    "input_rate_per_s",
    "processed_rate_per_s",
    "output_rate_per_s",
    "backlog",
    "latency_s",
    "processing_time_s",
    "scheduling_delay_s",
    "trigger_interval_s",
    "utilization",
    "skew",
)
"""The metrics that every engine has under the same name; ``None`` where it cannot measure one."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The number of instances of one operator; planned, requested and ready differ while a change is under way."""

    planned: int
    """The size of the last decision."""
    requested: int
    """The size that the engine has requested from its cluster."""
    ready: int
    """What can take work now; instances that are draining do not count."""
    stale: bool = False
    """Whether the newest observation lacks the size: this is the last known one."""
    missing_why: str = ""
    """Why the cluster has not given what is missing, in its own words; empty if it is not known, or none is missing."""

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
    startups: Mapping[str, tuple[Startup, ...]] = field(default_factory=lambda: NO_STARTUPS)
    """Instances that have registered since the previous observation, and those whose start-up has completed. Each
    appears twice, unless both happen at once."""


class PricedSize(NamedTuple):
    """What a policy expects of one size that it has considered. Costs are in instance-seconds.

    >>> PricedSize(4, 120.0, 12.5, 0.02, 0.05).cost_s
    132.5
    """

    instances: int
    instance_s: float
    """Cost of the instances until another size can replace this one."""
    late_s: float
    """Price of the records that it makes late."""
    late_share: float
    """Expected share of late records, of those that arrive in that time; at most 1."""
    break_chance: float
    """Probability that more records than allowed are late in the period of the objective."""

    @property
    def cost_s(self) -> float:
        """The cost by which sizes are compared."""
        return self.instance_s + self.late_s


@dataclass(frozen=True, slots=True)
class Target:
    """The size a policy wants for one operator, and why."""

    instances: int
    code: str
    """Stable and short, for machines: ``slo-violated``, ``no-data``, ``steady``."""
    reason: str
    """One sentence for people."""
    numbers: Mapping[str, Number] = field(default_factory=lambda: NO_NUMBERS)
    alternatives: tuple[PricedSize, ...] = ()
    """The sizes that were compared, ascending; empty for policies that do not price sizes."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The sizes that a policy wants, for every operator that it has an opinion on."""

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
    alternatives: tuple[PricedSize, ...] = ()
    """The sizes that the policy compared, ascending; empty for policies that do not price sizes."""

    @property
    def change(self) -> int:
        """Instances to add (positive) or to remove (negative)."""
        return self.target - self.current


class Role(StrEnum):
    """What a decision is for."""

    ACTING = "acting"
    RECOMMENDED = "recommended"
    """Not applied: the user decides whether to act."""
    SHADOW = "shadow"
    """Never applied: what another policy would have done."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One cycle's outcome, holds included."""

    at_s: Instant
    policy: str
    verdicts: Mapping[str, Verdict]
    role: Role = Role.ACTING

    @property
    def targets(self) -> dict[str, int]:
        return {name: verdict.target for name, verdict in self.verdicts.items()}

    @property
    def is_hold(self) -> bool:
        for verdict in self.verdicts.values():  # noqa: SIM110 - all() takes twice as long, and this runs for each decision
            if verdict.target != verdict.current:
                return False
        return True


class Outcome(StrEnum):
    """What the engine did with the size decided for one operator."""

    UNCHANGED = "unchanged"
    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    """Handed to the agent that scales the operator, not confirmed yet."""
    REFUSED = "refused"
    FAILED = "failed"

    @property
    def is_taken(self) -> bool:
        """Whether the decided size is now the plan."""
        return self is not Outcome.REFUSED and self is not Outcome.FAILED


_GRAVITY = (Outcome.UNCHANGED, Outcome.ACCEPTED, Outcome.DELIVERED, Outcome.REFUSED, Outcome.FAILED)


@dataclass(frozen=True, slots=True)
class Answer:
    """The engine's answer for one operator."""

    outcome: Outcome
    requested: int
    """Instances requested from the cluster after this decision."""
    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail))


@dataclass(frozen=True, slots=True)
class Receipt:
    """The engine's answer to a decision, operator by operator; the effect itself is seen in later observations."""

    at_s: Instant
    answers: Mapping[str, Answer]

    @property
    def outcome(self) -> Outcome:
        """The most severe of the answers."""
        if len(self.answers) == 1:
            return next(iter(self.answers.values())).outcome
        return max((answer.outcome for answer in self.answers.values()), key=_GRAVITY.index, default=Outcome.UNCHANGED)

    @property
    def requested(self) -> dict[str, int]:
        return {name: answer.requested for name, answer in self.answers.items()}

    @property
    def detail(self) -> str:
        """What was done, with the operators' names where there are several."""
        details = {name: answer.detail for name, answer in self.answers.items() if answer.detail}
        if len(self.answers) == 1:
            return "".join(details.values())
        return "; ".join(f"{name}: {detail}" for name, detail in details.items())


class Severity(StrEnum):
    """How bad an event is, and with it how it is logged and shown."""

    INFO = "info"
    WARNING = "warning"
    """Something was refused or is missing; the job runs on unchanged."""
    ERROR = "error"
    """Something failed."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the loop itself: a start, a stop, a failure, a switch of mode or policy."""

    at_s: Instant
    kind: str
    """Short and stable: ``started``, ``observe-failed``, ``policy-failed``, ``stopped``."""
    detail: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: NO_NUMBERS)
    severity: Severity = Severity.INFO

    def __post_init__(self) -> None:
        # Here, because everything that shows or stores an event gets it from here: agents and journals may be hostile.
        object.__setattr__(self, "kind", printable(self.kind))
        object.__setattr__(self, "detail", printable(self.detail))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a control loop: its policy, objective and operators.

    History and learned state belong to the job, whose name outlives its processes.
    """

    started_s: Instant
    policy: str
    settings: Mapping[str, JSON]
    objective: str
    engine: str
    operators: tuple[str, ...]
    seed: int = 0
    job: str = "job"
    """The job's name, by which a later run of the same job is known."""
    bounds: tuple[int, int] | None = None
    """The minimum and maximum of instances that were requested; ``None`` where there are none."""
    starts_at_s: float = 0.0
    """When the clock of a simulated run was 0, in seconds since the Unix epoch; 0 where no date was given."""


P = ParamSpec("P")
T = TypeVar("T")


def quickly(kind: Callable[P, T]) -> Callable[P, T]:
    """Return a faster constructor of a frozen dataclass with slots, for values that every cycle creates.

    Creating a frozen dataclass is slow: every field goes through ``object.__setattr__``. This constructor fills an
    unfrozen twin and then changes its class.

    >>> quickly(Target)(2, code="steady", reason="enough") == Target(2, "steady", "enough")
    True
    """
    given = fields(kind)  # type: ignore[arg-type] # a class, of which only the call matters to its type here
    same = [(item.name, object, field(default=item.default, default_factory=item.default_factory)) for item in given]

    def close(made: object) -> None:
        # Python allows this because both classes have the same slots and nothing else.
        made.__class__ = kind  # type: ignore[assignment]

    # `__post_init__` runs last, so the caller gets an instance of the frozen class.
    return make_dataclass(f"Open{getattr(kind, '__name__', '')}", same, slots=True, namespace={"__post_init__": close})
