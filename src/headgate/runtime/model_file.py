"""Model files of ``headgate mst``, for those who read none themselves: policies, to which what a setting ``model_file``
names is handed as measurements, and the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headgate.core.errors import InputError, cause_of
from headgate.core.types import JSON
from headgate.policies.capacity.model_file import TRAINING, VALIDATION, curve_in, measurements_in
from headgate.policies.frame.base import AnyPolicy, Context, PolicyMaker, policy_from
from headgate.simulation.micro_batch import MicroBatch

SETTING = "model_file"


def policy_with_files(
    policy: str | PolicyMaker, context: Context, settings: Mapping[str, object] | None = None
) -> AnyPolicy:
    """A policy as :func:`policy_from` makes it, with what the files hold that its settings name."""
    return policy_from(policy, context, with_model_file(settings))


def with_model_file(settings: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Settings with the measurements of the model file that they name, if they name one."""
    if settings is None or settings.get(SETTING) is None:
        return settings
    for given in (TRAINING, VALIDATION):
        if settings.get(given):
            raise InputError(f"settings {given} and {SETTING} are both given; the file has what {given} would say.")
    path = Path(str(settings[SETTING]))
    return {**settings, **measurements_in(read_model_file(path), str(path))._asdict()}


def measured_job(path: Path) -> tuple[float, MicroBatch]:
    """A job as it was measured: records per second of one instance, and how much more several get through."""
    curve = curve_in(read_model_file(path), str(path))
    if not curve or curve[0][0] != 1 or curve[0][1] <= 0:
        raise InputError(f"model file {str(path)!r} does not say what one instance gets through.")
    single = curve[0][1]
    return single, MicroBatch(speed_up=tuple((count, per_s / single) for count, per_s in curve))


def read_model_file(path: Path) -> JSON:
    """What is in a model file, or one sentence that says why it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"model file {str(path)!r} cannot be read: {cause_of(error)}.") from error
    except ValueError as error:
        raise InputError(f"model file {str(path)!r} is no JSON: {error}.") from error
