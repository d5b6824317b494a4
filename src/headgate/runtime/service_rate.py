"""How fast a job is, as users say it: a number, a service model, or what was measured, by its name or its file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import InputError, UnknownNameError
from headgate.runtime.model_file import measured_job
from headgate.simulation.micro_batch import SERVICE_MODELS, MicroBatch, ServiceModel, parse_service_model

Service: TypeAlias = ServiceModel | tuple[float, MicroBatch]
"""How several instances add up by a model; or records per second of one and how several add up, as it was measured."""
Speed: TypeAlias = float | Service
"""Records per second of one instance, or more than that."""
_MODELS = Path(__file__).parent / "models"


def known_models() -> list[str]:
    """The applications whose measurements come with Headgate (docs/lab/mst.md)."""
    return sorted(file.stem for file in _MODELS.glob("*.json"))


def parse_service(text: str) -> Service:
    """A service model, or one of :func:`known_models` by its name."""
    name, known = text.strip(), known_models()
    if name in known:
        return measured_job(_MODELS / f"{name}.json")
    if ":" not in name and name not in SERVICE_MODELS:
        raise UnknownNameError("service model", name, [*SERVICE_MODELS, *known])
    return parse_service_model(text)


def parse_service_rate(text: str, model: str | None, startup: str | None, home: Path = Path()) -> Speed:
    """What ``--service-rate`` says; ``--model`` and ``--startup`` are what is said beside it, and must go with it.

    A name means the same in every folder: a file that is called like a measured application is not looked at.
    """
    with suppress(ValueError):
        return float(text)
    is_known = text in known_models()
    is_file = not is_known and (home / text).is_file()
    if not is_known and not is_file and ":" not in text:
        raise InputError(
            f"--service-rate {text!r} is neither a number nor a file; write for example 10, "
            "saturating:rate=10,contention=0.05, the model file that headgate mst has written, "
            f"or an application that was measured ({', '.join(known_models()) or 'none yet'})."
        )
    if model not in (None, "micro-batch"):
        kind = "measured application" if is_known else "model file" if is_file else "service model"
        raise InputError(f"--model {model} does not go with the {kind} {text}; it is of a micro-batch job.")
    service = measured_job(home / text) if is_file else parse_service(text)
    if isinstance(service, ServiceModel) and service.startup_s is not None and startup is not None:
        raise InputError(f"--startup {startup} does not go with startup= in the service model {text}; one is enough.")
    return service
