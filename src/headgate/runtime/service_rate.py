"""How fast a job is, as users say it: a number, a service model, or a file of what was measured."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import InputError
from headgate.runtime.model_file import measured_job
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.service_models import ServiceModel, parse_service_model

Speed: TypeAlias = float | ServiceModel | tuple[float, MicroBatch]
"""Records per second of one instance; how several of them add up by a model; or both as they were measured."""


def parse_service_rate(text: str, model: str | None, startup: str | None, home: Path = Path()) -> Speed:
    """What ``--service-rate`` says; ``--model`` and ``--startup`` are what is said beside it, and must go with it."""
    with suppress(ValueError):
        return float(text)
    path = home / text
    is_file = path.exists()
    if not is_file and ":" not in text:
        raise InputError(
            f"--service-rate {text!r} is neither a number nor a file; write for example 10, "
            "saturating:rate=10,contention=0.05, or the model file that headgate mst has written."
        )
    if model not in (None, "micro-batch"):
        kind = "model file" if is_file else "service model"
        raise InputError(f"--model {model} does not go with the {kind} {text}; it is of a micro-batch job.")
    if is_file:
        return measured_job(path)
    service = parse_service_model(text)
    if service.startup_s is not None and startup is not None:
        raise InputError(f"--startup {startup} does not go with startup= in the service model {text}; one is enough.")
    return service
