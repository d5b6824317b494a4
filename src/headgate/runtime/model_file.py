"""Policies read no files: what a setting ``model_file`` names is read here and handed to them as measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headgate.core.errors import InputError
from headgate.policies.capacity.model_file import TRAINING, VALIDATION, measurements_in
from headgate.policies.frame.base import AnyPolicy, Context, PolicyMaker, policy_from

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
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"model file {str(path)!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"model file {str(path)!r} is no JSON: {error}.") from error
    return {**settings, **measurements_in(found, str(path))._asdict()}
