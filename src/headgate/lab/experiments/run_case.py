"""An experiment (workloads × jobs × objectives × policies × seeds), and a run of one of these combinations, a case.

A simulated run returns a flat row; one that fails returns a row with its error.
Cases run in Spark's Python workers and share nothing but the files that they name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from headgate.core.errors import HeadgateError, InputError
from headgate.core.objective import Objective, objective_from
from headgate.core.types import JSON
from headgate.lab.measures import measures_of
from headgate.lab.run_folder import fingerprint
from headgate.policies.frame.base import PolicyMaker
from headgate.runtime.interrupts import raise_if_interrupted
from headgate.runtime.model_file import SETTING as MODEL_FILE
from headgate.runtime.simulate import Model, Progress, SimulationResult, simulate
from headgate.runtime.summary import is_objective_met
from headgate.simulation.micro_batch import MicroBatch, parse_service_model
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import Scaled, reseeded

FORMAT_VERSION = 1
_KEY_LENGTH = 20


_STARTS_AT = "starts_at_s"


def _without_date(plain: Mapping[str, JSON]) -> dict[str, JSON]:
    """Leave out a date that was not given: results of earlier versions keep their keys."""
    return {name: value for name, value in plain.items() if name != _STARTS_AT or value}


@dataclass(frozen=True)
class Case:
    """A simulated run; ``workload``, ``job``, ``objective`` and ``label`` are its labels in tables."""

    workload: str
    load: str
    scale: float
    seconds: float
    job: str
    rate_per_s: float
    batches: Mapping[str, JSON] | None
    readings: str
    startup_s: float
    startup_spread: float
    drain_s: float
    objective: str
    objective_data: Mapping[str, JSON]
    label: str
    policy: str
    settings: Mapping[str, str]
    guards: Mapping[str, str]
    start: int | None
    interval_s: float
    seed: int
    starts_at_s: float = 0.0

    def to_json(self) -> str:
        """Return a text that does not depend on the order of keys."""
        plain = {"version": FORMAT_VERSION, **_without_date(vars(self))}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Case:
        given = json.loads(text)
        version = given.pop("version", None)
        if version != FORMAT_VERSION:
            raise InputError(f"a case of version {version!r} cannot be read; {FORMAT_VERSION} is known.")
        names = {field.name for field in fields(cls)}
        if given.keys() | {_STARTS_AT} != names:
            raise InputError(f"a case has the keys {', '.join(sorted(given))}; {', '.join(sorted(names))} are needed.")
        return cls(**given)

    @property
    def key(self) -> str:
        """A hash that identifies the case."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:_KEY_LENGTH]


LABELS = ("workload", "job", "objective", "policy")
FIGURES = {
    "cost": "cost, in the unit of the price",
    "instance_hours": "instance-hours",
    "mean_instances": "instances, mean",
    "late_records_pct": "late records, %",
    "slo_violation_pct": "time in violation, %",
    "qos_pct": "time keeping up, %",
    "latency_p50_s": "latency p50, s",
    "latency_p95_s": "latency p95, s",
    "latency_p99_s": "latency p99, s",
    "max_backlog": "worst backlog, records",
    "rescales": "rescales",
    "rescales_per_day": "rescales per day",
    "regret_pct": "dearer than the clairvoyant, %",
    "recovery_median_s": "time to recover, median, s",
    "recovery_worst_s": "time to recover, worst, s",
    "under_accuracy_pct": "too few instances, θ_U, % of the need",
    "over_accuracy_pct": "too many instances, θ_O, % of the need",
    "under_time_pct": "time with too few, τ_U, %",
    "over_time_pct": "time with too many, τ_O, %",
    "instability_pct": "instability, υ, % of time",
}
"""Figures of a run, with their names and units in tables and plots; ``docs/guides/measures.md`` defines them."""
Row = dict[str, JSON]


def own_code() -> str:
    """Return the fingerprint of the code that runs cases in this process."""
    return fingerprint(__name__)


def figures_of(result: SimulationResult, case: Case, objective: Objective, load: Workload) -> dict[str, float | None]:
    """Return the figures of a run named in ``FIGURES``."""
    measures = measures_of(
        result,
        load,
        objective=objective,
        service_rate_per_s=case.rate_per_s,
        model=model_of(case),
        startup_s=case.startup_s,
    )
    summary = result.summary
    found = {name: getattr(summary if hasattr(summary, name) else measures, name) for name in FIGURES}
    return {name: None if value is None else float(value) for name, value in found.items()}


def run_case(case: Case, folder: Path, place: int = 0, progress: Progress | None = None) -> Row:
    """Run a case and return its row; ``folder`` has the files that it names, ``place`` is its place among all cases."""
    row: Row = {
        "place": place,
        "key": case.key,
        "workload": case.workload,
        "job": case.job,
        "objective": case.objective,
        "policy": case.label,
        "seed": case.seed,
        "kept": None,
        "error": None,
        **dict.fromkeys(FIGURES),
    }
    try:
        objective = objective_from(case.objective_data)
        load = load_of(case, folder)
        result = simulate_case(case, objective, load, folder, progress=progress)
        row |= figures_of(result, case, objective, load)
        row["kept"] = is_objective_met(result.summary, objective, case.seconds)
    except HeadgateError as error:
        row["error"] = str(error)
    except Exception as error:  # noqa: BLE001 - any failure becomes the row of this run and must not stop others
        raise_if_interrupted(error)
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def simulate_case(
    case: Case,
    objective: Objective,
    load: Workload,
    folder: Path,
    *,
    policy: PolicyMaker | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Simulate the job of a case with its own policy, or with another one that is set up already."""
    return simulate(
        policy or case.policy,
        load,
        objective=objective,
        settings=None if policy else _with_path(case.settings, folder),
        guards=None if policy else case.guards,
        service_rate_per_s=case.rate_per_s,
        model=model_of(case),
        start=objective.min_instances if case.start is None else case.start,
        readings=case.readings,
        startup_s=case.startup_s,
        startup_spread=case.startup_spread,
        drain_s=case.drain_s,
        interval_s=case.interval_s,
        seconds=case.seconds,
        starts_at_s=case.starts_at_s,
        seed=case.seed,
        progress=progress,
    )


def model_of(case: Case) -> Model:
    """Return how the job of a case works."""
    return "queue" if case.batches is None else micro_batch(case.batches)


def load_of(case: Case, folder: Path) -> Workload:
    """Return the load of a case with its seed's noise."""
    return _workload(case.load, case.scale, case.seed, folder)


@lru_cache(maxsize=8)
def _workload(spec: str, scale: float, seed: int, folder: Path) -> Workload:
    """Cached, because consecutive cases mostly share their load."""
    load = reseeded(parse_workload(spec, folder), seed)
    return load if scale == 1 else Scaled(load, scale)


def micro_batch(fields: Mapping[str, JSON]) -> MicroBatch:
    """Build the model from plain data, in which pairs are lists."""
    given: dict[str, Any] = {
        name: tuple(tuple(pair) for pair in value) if isinstance(value, list | tuple) else value
        for name, value in fields.items()
    }
    return MicroBatch(**given)


def _with_path(settings: Mapping[str, str], folder: Path) -> dict[str, object]:
    named = settings.get(MODEL_FILE)
    return {**settings} if named is None else {**settings, MODEL_FILE: str(folder / named)}


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
    starts_at_s: float = 0.0
    """The date of time 0, in seconds since the Unix epoch."""

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
                starts_at_s=self.starts_at_s,
            )

    def to_json(self) -> dict[str, JSON]:
        plain: dict[str, JSON] = _without_date(asdict(self))
        for load in plain["workloads"]:
            # A folder belongs to the experiment with equal data, whatever the notes.
            del load["notes"]
        return plain
