"""Readings of real smart plugs (DEBS 2014), repeated from the start after the last."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, cause_of
from headgate.workloads.draws import Keys
from headgate.workloads.payloads import Record
from headgate.workloads.traces import trace_folder

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, house INT NOT NULL, household INT NOT NULL, plug INT NOT NULL, "
    "load_w DOUBLE NOT NULL"
)
FILE = "debs2014-smartgrid/smartgrid-data.txt.gz"
_LOAD = "1"
"""The property that is a load; the other is work."""
Reading = tuple[int, int, int, str]
"""House, household, plug, and the text of the load in watts."""


class PlugReadings:
    """The key is the house, household and plug. The data determine the plugs, so the skew of keys is not used."""

    def __init__(self, seed: int, keys: Keys) -> None:
        self._readings = _read(trace_folder().resolve())

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        return [
            _record(number, due_ms, self._readings[number % len(self._readings)])
            for number, due_ms in enumerate(at_ms.tolist(), start=first)
        ]


def _record(number: int, due_ms: int, reading: Reading) -> Record:
    house, household, plug, load_w = reading
    return Record(
        b"%d/%d/%d" % (house, household, plug),
        f'{{"number":{number},"at_ms":{due_ms},"house":{house},"household":{household},"plug":{plug},'
        f'"load_w":{load_w}}}'.encode(),
    )


@cache
def _read(folder: Path) -> list[Reading]:
    try:
        with gzip.open(folder / FILE, "rt", encoding="utf-8") as file:
            rows = [line.split() for line in file]
    except OSError as error:
        raise InputError(
            f"readings of smart plugs cannot be read from {str(folder / FILE)!r}: {cause_of(error)}."
        ) from error
    return [
        (int(house), int(household), int(plug), value)
        for _, value, kind, plug, household, house in rows
        if kind == _LOAD
    ]
