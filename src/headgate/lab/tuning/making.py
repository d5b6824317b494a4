"""From what a user says to a plan: the job, how long the load is, and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.lab.experiments.keys import MODELS
from headgate.lab.experiments.model import JobPart
from headgate.lab.experiments.part_reader import content_hash
from headgate.lab.tuning.splitting import LEAST_HELD_BACK, Sized, Stretch, cut, split_load
from headgate.runtime.model_file import measured_job
from headgate.simulation.batch_readings import Readings
from headgate.simulation.service_models import parse_service_model
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


def job_of(rate: str, startup_s: float | None, model: str | None, readings: str, home: Path) -> JobPart:
    """How fast the job is: by a number, by a service model, or as ``headgate mst`` has measured it."""
    if model not in (None, *MODELS):
        raise UnknownNameError("model", model, MODELS)
    if readings not in (known := [str(one) for one in Readings]):
        raise UnknownNameError("readings", readings, known)
    single: float | None
    try:
        single = float(rate)
    except ValueError:
        single = None
    if single is not None:
        if not 0 < single < float("inf"):
            raise InputError(f"--service-rate {rate} is not allowed; it must be finite and above 0.")
        batches: dict[str, JSON] | None = {} if model == "micro-batch" else None
        return JobPart(f"{model or 'queue'} {single:g}/s", single, batches, readings, startup_s or 0.0)
    if model not in (None, "micro-batch"):
        raise InputError(f"--model {model} does not go with --service-rate {rate}; that is of a micro-batch job.")
    if (home / rate).exists():
        single, measured = measured_job(home / rate)
        curve = [list(pair) for pair in asdict(measured)["speed_up"]]
        return JobPart(rate, single, {"speed_up": curve}, readings, startup_s or 0.0)
    if ":" not in rate:
        raise InputError(
            f"--service-rate {rate!r} is neither a number nor a file; write for example 10, "
            "saturating:rate=10,contention=0.05, or the model file that headgate mst has written."
        )
    service = parse_service_model(rate)
    if service.startup_s is not None and startup_s is not None:
        raise InputError(f"--startup does not go with startup= in the service model {rate}; one is enough.")
    told, starts_s = service.describe(), service.startup_s if startup_s is None else startup_s
    return JobPart(told, service.rate_per_s, {}, readings, starts_s or 0.0, service=told)


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
