"""Build the plan of a tuning from the options of the command: the job, the length of the load, and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.lab.experiments.document import MODELS, content_hash
from headgate.lab.experiments.model import JobPart
from headgate.lab.tuning.plan import LEAST_HELD_BACK, Sized, Stretch, cut, split_load
from headgate.runtime.service_rate import parse_service_rate
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.micro_batch import ServiceModel
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import end_of
from headgate.workloads.parse import workload_files


@dataclass(frozen=True, slots=True)
class Offered:
    """A load, and how long it is."""

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
    """How fast the job is: by a number, by a service model, or as ``headgate mst`` has measured it."""
    if model not in (None, *MODELS):
        raise UnknownNameError("model", model, MODELS)
    if readings not in (known := [str(one) for one in ReadingMode]):
        raise UnknownNameError("readings", readings, known)
    speed = parse_service_rate(rate, model, startup, home)
    try:
        starts_s = 0.0 if startup is None else parse_duration_s(startup)
    except InputError as error:
        raise InputError(f"--startup: {error}") from error
    if isinstance(speed, ServiceModel):
        told = speed.describe()
        return JobPart(told, speed.rate_per_s, {}, readings, speed.startup_s or starts_s, service=told)
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
    """The parts for the search, and those held back: of the same load, or of another one."""
    sized = Sized(job.rate_per_s, objective.min_instances, objective.max_instances)
    if validation is None:
        return split_load(training.text, training.load, training.seconds, parts, held_back, sized)
    later = max(LEAST_HELD_BACK, parts)
    return (
        cut(training.text, training.load, 0.0, training.seconds, parts, sized, "part"),
        cut(validation.text, validation.load, 0.0, validation.seconds, later, sized, "held back"),
    )


def files_of(loads: Sequence[str], others: Sequence[str], home: Path) -> dict[str, str]:
    """The files that are named, each with a hash of what is in it."""
    named = [*(file for text in loads for file in workload_files(text)), *others]
    return {name: content_hash(home / name) for name in named if (home / name).exists()}
