"""An experiment: workloads × jobs × objectives × policies × seeds; each combination is a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import product

from headgate.core.objective_form import objective_from
from headgate.core.types import JSON
from headgate.lab.experiments.run_case import Case
from headgate.simulation.micro_batch import parse_service_model

DEFAULT_INTERVAL_S = 5.0


@dataclass(frozen=True)
class LoadPart:
    """One workload of an experiment."""

    name: str
    workload: str
    """As ``parse_workload`` takes it."""
    seconds: float
    scale: float = 1.0
    jobs: tuple[str, ...] | None = None
    """The names of the jobs it is run with; ``None`` for all."""
    kind: str | None = None
    """``smooth``, ``noisy`` or ``bursty``, where that is known."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """A sentence for each change made to recordings for this load, and one if it ends before a run does."""


@dataclass(frozen=True)
class JobPart:
    """One service model of an experiment."""

    name: str
    rate_per_s: float
    """Records per second of one instance."""
    batches: Mapping[str, JSON] | None = None
    """The fields of ``MicroBatch`` that are set; ``None`` for a plain queue."""
    readings: str = "spark"
    startup_s: float = 0.0
    startup_spread: float = 0.0
    drain_s: float = 0.0
    service: str | None = None
    """A service model, by which scaling may be less than linear up to an objective's bound."""

    def batches_up_to(self, max_instances: int) -> Mapping[str, JSON] | None:
        """Return the fields of ``MicroBatch`` for at most this many instances."""
        if self.service is None:
            return self.batches
        model = parse_service_model(self.service).micro_batch(max_instances)
        curve: JSON = [list(pair) for pair in model.speed_up]
        bends = {"speed_up": curve} if curve else {}
        return {**(self.batches or {}), **bends, "rescale_pause_s": model.rescale_pause_s, "skew": model.skew}


@dataclass(frozen=True)
class PolicyPart:
    """One policy of an experiment, with its settings."""

    name: str
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    guards: Mapping[str, str] = field(default_factory=dict)
    start: int | None = None
    """Instances at the start; the objective's minimum where not given."""


@dataclass(frozen=True)
class ObjectivePart:
    """One objective of an experiment, as ``objective_to_data`` has it."""

    name: str
    objective: Mapping[str, JSON]

    @property
    def max_instances(self) -> int:
        return objective_from(self.objective).max_instances


@dataclass(frozen=True)
class ExperimentMatrix:
    name: str
    workloads: tuple[LoadPart, ...]
    jobs: tuple[JobPart, ...]
    policies: tuple[PolicyPart, ...]
    objectives: tuple[ObjectivePart, ...]
    seeds: tuple[int, ...] = (0,)
    interval_s: float = DEFAULT_INTERVAL_S
    files: Mapping[str, str] = field(default_factory=dict)
    """The files that it names, each with a hash of its content."""

    def __len__(self) -> int:
        pairs = sum(len(self._jobs_of(load)) for load in self.workloads)
        return pairs * len(self.policies) * len(self.objectives) * len(self.seeds)

    def _jobs_of(self, load: LoadPart) -> list[JobPart]:
        return [job for job in self.jobs if load.jobs is None or job.name in load.jobs]

    def cases(self) -> Iterator[Case]:
        """Yield every combination, always in the same order."""
        pairs = [(load, job) for load in self.workloads for job in self._jobs_of(load)]
        for (load, job), objective, policy, seed in product(pairs, self.objectives, self.policies, self.seeds):
            yield Case(
                workload=load.name,
                load=load.workload,
                scale=load.scale,
                seconds=load.seconds,
                job=job.name,
                rate_per_s=job.rate_per_s,
                batches=job.batches_up_to(objective.max_instances),
                readings=job.readings,
                startup_s=job.startup_s,
                startup_spread=job.startup_spread,
                drain_s=job.drain_s,
                objective=objective.name,
                objective_data=objective.objective,
                label=policy.name,
                policy=policy.policy,
                settings=policy.settings,
                guards=policy.guards,
                start=policy.start,
                interval_s=self.interval_s,
                seed=seed,
            )

    def to_json(self) -> dict[str, JSON]:
        plain: dict[str, JSON] = asdict(self)
        for load in plain["workloads"]:
            # A folder belongs to the experiment with equal data, whatever the notes.
            del load["notes"]
        return plain
