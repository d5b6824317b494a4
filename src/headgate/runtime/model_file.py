"""Read model files of ``headgate mst`` for the simulator and for policies, which do no I/O themselves.

A policy gets the measurements in the file that its setting ``model_file`` names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import InputError, UnknownNameError, cause_of
from headgate.core.types import JSON
from headgate.policies.capacity.mst import TRAINING, VALIDATION, curve_in, measurements_in
from headgate.policies.frame.base import AnyPolicy, Context, PolicyMaker, policy_from
from headgate.simulation.micro_batch import SERVICE_MODELS, MicroBatch, ServiceModel, parse_service_model

SETTING = "model_file"


def policy_with_files(
    policy: str | PolicyMaker, context: Context, settings: Mapping[str, object] | None = None
) -> AnyPolicy:
    """Make a policy by :func:`policy_from`, with the content of the files that its settings name."""
    return policy_from(policy, context, with_model_file(settings))


def with_model_file(settings: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return settings with the measurements of the model file that they name, if they name one."""
    if settings is None or settings.get(SETTING) is None:
        return settings
    for given in (TRAINING, VALIDATION):
        if settings.get(given):
            raise InputError(f"settings {given} and {SETTING} are both given; the file has what {given} would say.")
    path = Path(str(settings[SETTING]))
    return {**settings, **measurements_in(read_model_file(path), str(path))._asdict()}


def measured_job(path: Path) -> tuple[float, MicroBatch]:
    """Return a measured job: records per second of one instance, and the speed-up of several."""
    curve = curve_in(read_model_file(path), str(path))
    if not curve or curve[0][0] != 1 or curve[0][1] <= 0:
        raise InputError(f"model file {str(path)!r} does not say what one instance gets through.")
    single = curve[0][1]
    return single, MicroBatch(speed_up=tuple((count, per_s / single) for count, per_s in curve))


def read_model_file(path: Path) -> JSON:
    """Return the content of a model file; an ``InputError`` says in one sentence why it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"model file {str(path)!r} cannot be read: {cause_of(error)}.") from error
    except ValueError as error:
        raise InputError(f"model file {str(path)!r} is no JSON: {error}.") from error


Service: TypeAlias = ServiceModel | tuple[float, MicroBatch]
"""A model of how several instances add up; or a measurement: records per second of one, and how several add up."""
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
    """Parse ``--service-rate``; ``--model`` and ``--startup``, given with it, must be compatible.

    A name means the same in every folder: a file with the name of a measured application is ignored.
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
