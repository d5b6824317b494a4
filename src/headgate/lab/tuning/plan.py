"""What a tuning is: which policy and space, on which parts of a load, how judged, and how searched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import By, Objective, objective_from
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.core.units import exact_number, format_duration, parse_duration_s
from headgate.lab.experiments.document import MODELS, content_hash
from headgate.lab.experiments.run_case import (
    DEFAULT_INTERVAL_S,
    Case,
    ExperimentMatrix,
    JobPart,
    LoadPart,
    ObjectivePart,
    PolicyPart,
    Row,
)
from headgate.lab.tuning.pruning import Prune
from headgate.lab.tuning.search import Values
from headgate.lab.tuning.space import Space
from headgate.lab.tuning.trial import Minimise
from headgate.policies.frame.base import Context, guards_for
from headgate.runtime.model_file import parse_service_rate, policy_with_files
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.micro_batch import ServiceModel
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import end_of
from headgate.workloads.parse import workload_files

SHORTEST_S = 60.0
"""The shortest part that is worth a run."""
LEAST_HELD_BACK = 3
"""The fewest held-back parts: fewer pairs do not show how certain a difference is."""
_BUSY = 0.8
"""The utilisation of the instances at the start of a part."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a load, with the number of instances at its start."""

    load: LoadPart
    start: int


@dataclass(frozen=True, slots=True)
class Sized:
    """What the number of instances at the start of a part depends on."""

    rate_per_s: float
    min_instances: int
    max_instances: int

    def start(self, load: Workload, at_s: float) -> int:
        """Return the instances that the load at this time needs, so that no part begins with a backlog."""
        needed = math.ceil(load.rate_per_s(at_s) / (_BUSY * self.rate_per_s))
        return min(self.max_instances, max(self.min_instances, needed))


def split_load(
    text: str, load: Workload, seconds: float, parts: int, held_back: float, sized: Sized
) -> tuple[list[Stretch], list[Stretch]]:
    """Return the parts for the search, and the held-back parts, which are the end of the load."""
    if not 0 < held_back < 1:
        raise InputError(f"--held-back {held_back:.0%} is not allowed; it must lie between 0 % and 100 %.")
    cut_s = seconds * (1 - held_back)
    later = max(LEAST_HELD_BACK, round(parts * held_back / (1 - held_back)))
    return (
        cut(text, load, 0.0, cut_s, parts, sized, "part"),
        cut(text, load, cut_s, seconds, later, sized, "held back"),
    )


def cut(text: str, load: Workload, from_s: float, to_s: float, count: int, sized: Sized, name: str) -> list[Stretch]:
    """Split a span of a load into parts of equal length."""
    length_s = (to_s - from_s) / count
    if length_s < SHORTEST_S:
        raise InputError(
            f"{format_duration(to_s - from_s)} of load in {count} parts makes {format_duration(length_s)} each; "
            f"at least {format_duration(SHORTEST_S)} are needed."
        )
    found = []
    for place in range(count):
        at_s = from_s + place * length_s
        later = text if at_s == 0 else f"({text}) | shift -{exact_number(at_s)}s"
        found.append(Stretch(LoadPart(f"{name} {place + 1}", later, length_s), sized.start(load, at_s)))
    return found


_ONE_JOB = Topology(("job",))


@dataclass(frozen=True)
class TunePlan:
    space: Space
    workload: str
    """As the user wrote it."""
    training: Sequence[Stretch]
    held_back: Sequence[Stretch]
    job: JobPart
    objective_part: ObjectivePart
    seeds: tuple[int, ...] = (0, 1, 2)
    interval_s: float = DEFAULT_INTERVAL_S
    search: str = "optuna"
    minimise: Minimise = Minimise.BOTH
    prune: Prune = Prune.SURE
    trials: int = 64
    seed: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    """The files that it names, each with a hash of its content."""

    @property
    def objective(self) -> Objective:
        return objective_from(self.objective_part.objective)

    @property
    def allowed_pct(self) -> float:
        """The share of records or of time that may be missed."""
        return float(100 * self.objective.slo.allowed_share)

    def cases(self, stretch: Stretch, wanted: Mapping[str, Values]) -> Iterator[Case]:
        """Yield the cases of named settings on a part of the load, for each name all seeds."""
        policies = []
        for name, values in wanted.items():
            settings, guards = self.space.split(values)
            policies.append(PolicyPart(name, self.space.policy, settings, guards, stretch.start))
        experiment = ExperimentMatrix(
            "tuning", (stretch.load,), (self.job,), tuple(policies), (self.objective_part,), self.seeds, self.interval_s
        )
        return experiment.cases()

    def is_allowed(self, values: Values) -> bool:
        """Return whether the policy accepts these settings."""
        try:
            self.check(values)
        except InputError:
            return False
        return True

    def check(self, values: Values) -> None:
        """Raise an ``InputError`` where the policy cannot be made with such settings."""
        settings, guards = self.space.split(values)
        guards_for(policy_with_files(self.space.policy, Context(self.objective, _ONE_JOB), settings), guards)

    def missed_pct(self, row: Row) -> float | None:
        """Return what a run missed: late records where the objective counts records, otherwise time in violation."""
        late: float | None = row["late_records_pct"]
        violated: float | None = row["slo_violation_pct"]
        by_records = self.objective.slo.by is By.RECORDS and late is not None
        return late if by_records else violated

    def to_json(self) -> dict[str, JSON]:
        """Return everything that the runs and the search depend on, as plain data."""
        return {
            "space": self.space.to_json(),
            "workload": self.workload,
            "training": [asdict(stretch) for stretch in self.training],
            "held_back": [asdict(stretch) for stretch in self.held_back],
            "job": asdict(self.job),
            "objective": dict(self.objective_part.objective),
            "seeds": list(self.seeds),
            "interval_s": self.interval_s,
            "search": self.search,
            "minimise": str(self.minimise),
            "prune": str(self.prune),
            "trials": self.trials,
            "seed": self.seed,
            "files": dict(self.files),
        }


@dataclass(frozen=True, slots=True)
class Offered:
    """A load with its length."""

    text: str
    load: Workload
    seconds: float


def offered(text: str, seconds: float | None, home: Path) -> Offered:
    load = parse_workload(text, home)
    known = end_of(load) if seconds is None else seconds
    if known is None:
        raise InputError(f"workload {text!r} has no end; say with --seconds how much of it is used.")
    return Offered(text, load, known)


def job_of(rate: str, startup: str | None, model: str | None, readings: str, home: Path) -> JobPart:
    """Return the job: its speed is a number, a service model, or a model file of ``headgate mst``."""
    if model not in (None, *MODELS):
        raise UnknownNameError("model", model, MODELS)
    if readings not in (known := [str(mode) for mode in ReadingMode]):
        raise UnknownNameError("readings", readings, known)
    speed = parse_service_rate(rate, model, startup, home)
    try:
        starts_s = 0.0 if startup is None else parse_duration_s(startup)
    except InputError as error:
        raise InputError(f"--startup: {error}") from error
    if isinstance(speed, ServiceModel):
        described = speed.describe()
        return JobPart(described, speed.rate_per_s, {}, readings, speed.startup_s or starts_s, service=described)
    if isinstance(speed, tuple):
        single, measured = speed
        curve = [list(pair) for pair in asdict(measured)["speed_up"]]
        return JobPart(rate, single, {"speed_up": curve}, readings, starts_s)
    if not 0 < speed < float("inf"):
        raise InputError(f"--service-rate {rate} is not allowed; it must be finite and above 0.")
    batches: dict[str, JSON] | None = {} if model == "micro-batch" else None
    return JobPart(f"{model or 'queue'} {speed:g}/s", speed, batches, readings, starts_s)


def stretches(
    training: Offered, validation: Offered | None, objective: Objective, job: JobPart, *, parts: int, held_back: float
) -> tuple[list[Stretch], list[Stretch]]:
    """Return the parts for the search and the held-back parts, which may be of another load."""
    sized = Sized(job.rate_per_s, objective.min_instances, objective.max_instances)
    if validation is None:
        return split_load(training.text, training.load, training.seconds, parts, held_back, sized)
    later = max(LEAST_HELD_BACK, parts)
    return (
        cut(training.text, training.load, 0.0, training.seconds, parts, sized, "part"),
        cut(validation.text, validation.load, 0.0, validation.seconds, later, sized, "held back"),
    )


def files_of(loads: Sequence[str], others: Sequence[str], home: Path) -> dict[str, str]:
    """Return the files that exist of those named, each with a hash of its content."""
    named = [*(file for text in loads for file in workload_files(text)), *others]
    return {name: content_hash(home / name) for name in named if (home / name).exists()}
