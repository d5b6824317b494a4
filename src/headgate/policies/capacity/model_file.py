"""The model file of ``headgate mst``: what was measured, in a form that the policies mst-0 … mst-7 and quantile take.

>>> found = {"version": 1, "measurements": [
...     {"executors": 1, "agreeing_per_s": [99.0, 101.0], "use": "training"},
...     {"executors": 3, "agreeing_per_s": [290.0], "use": "validation"}]}
>>> measurements_in(found, "mst.json")
Measurements(training=((1, 99.0), (1, 101.0)), validation=((3, 290.0),))
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.policies.capacity.mst import Measured

FILE_VERSION = 1
TRAINING, VALIDATION = "training", "validation"


class Measurements(NamedTuple):
    """Pairs of a number of instances and the records per second that they sustained at most."""

    training: tuple[Measured, ...]
    validation: tuple[Measured, ...]


def curve_in(found: JSON, name: str) -> tuple[Measured, ...]:
    """Pairs of a number of instances, from 1 on, and what the chosen model says that they sustain at most."""
    _require_version(found, name)
    try:
        return tuple((int(row["executors"]), float(row["throughput_per_s"])) for row in found["curve"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(name, error) from error


def measurements_in(found: JSON, name: str) -> Measurements:
    """What a model file has measured; ``name`` is that of the file."""
    _require_version(found, name)
    try:
        by_use: dict[str, list[Measured]] = {TRAINING: [], VALIDATION: []}
        for row in found["measurements"]:
            by_use[row["use"]].extend((int(row["executors"]), float(value)) for value in row["agreeing_per_s"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(name, error) from error
    if not by_use[TRAINING]:
        raise InputError(f"model file {name!r} has no measurement that settled; at least one is needed.")
    return Measurements(tuple(by_use[TRAINING]), tuple(by_use[VALIDATION]))


def _require_version(found: JSON, name: str) -> None:
    version = found.get("version") if isinstance(found, dict) else None
    if version != FILE_VERSION:
        raise InputError(f"model file {name!r} has version {version!r}; version {FILE_VERSION} is needed.")


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(f"model file {name!r} is damaged: {error!r}; it is written by headgate mst --save FILE.")
