"""Whether a loop acts on what is decided, or only writes it down."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from headgate.core.errors import UnknownNameError
from headgate.core.types import Observation


class Mode(StrEnum):
    ACT = "act"
    RECOMMEND = "recommend"
    """Everything is observed, decided and journalled, and nothing is changed."""


def mode_named(name: str) -> Mode:
    """A mode by its name."""
    try:
        return Mode(name)
    except ValueError:
        raise UnknownNameError("mode", name, map(str, Mode)) from None


def as_it_is(observation: Observation) -> Observation:
    """The observation of a job that others scale: what it has is what is planned for it, as far as anybody knows."""
    instances = {
        name: replace(size, planned=size.ready, requested=size.ready) for name, size in observation.instances.items()
    }
    return replace(observation, instances=instances)
