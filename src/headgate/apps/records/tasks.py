"""Events of tasks on a real cluster (Google 2011), repeated from the start after the last.

``trace_us`` is the time in the trace, the event time of the application; ``at_ms`` is when a record was due.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, cause_of
from headgate.workloads.draws import Keys
from headgate.workloads.payloads import Record
from headgate.workloads.traces import trace_folder

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, trace_us BIGINT NOT NULL, job BIGINT NOT NULL, "
    "task INT NOT NULL, machine BIGINT, event INT NOT NULL, cpu DOUBLE, memory DOUBLE, disk DOUBLE"
)
FOLDER = "google-cluster-2011"
PARTS = tuple(f"part-0000{part}-of-00500.csv.gz" for part in (0, 1))
COLUMNS = {
    "trace_us": "BIGINT",
    "missing": "INT",
    "job": "BIGINT",
    "task": "INT",
    "machine": "BIGINT",
    "event": "INT",
    "user": "STRING",
    "class": "INT",
    "priority": "INT",
    "cpu": "DOUBLE",
    "memory": "DOUBLE",
    "disk": "DOUBLE",
    "constraint": "INT",
}
"""The columns of the files with their types."""
_WRITTEN = ("job", "task", "machine", "event", "cpu", "memory", "disk")
Event = tuple[int, bytes, str]
"""Time of the trace, key, and the other fields as JSON without its braces."""


class TaskEvents:
    """The key is the task. The trace determines the tasks, so the skew of keys is not used."""

    def __init__(self, seed: int, keys: Keys) -> None:
        self._events = _read(trace_folder().resolve())
        # A repetition has later times: time never goes back.
        self._length_us = self._events[-1][0] + 1

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        return [self._record(number, due_ms) for number, due_ms in enumerate(at_ms.tolist(), start=first)]

    def _record(self, number: int, due_ms: int) -> Record:
        times, index = divmod(number, len(self._events))
        trace_us, key, fields = self._events[index]
        trace_us += times * self._length_us
        return Record(key, f'{{"number":{number},"at_ms":{due_ms},"trace_us":{trace_us},{fields}}}'.encode())


@cache
def _read(folder: Path) -> list[Event]:
    try:
        return [event for part in PARTS for event in _events(folder / FOLDER / part)]
    except OSError as error:
        raise InputError(f"events of tasks cannot be read from {str(folder / FOLDER)!r}: {cause_of(error)}.") from error


def _events(path: Path) -> Iterator[Event]:
    columns = list(COLUMNS)
    written = [(columns.index(name), f'"{name}":') for name in _WRITTEN]
    job, task = columns.index("job"), columns.index("task")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            # The trace writes numbers as JSON does.
            fields = ",".join([name + row[column] for column, name in written if row[column]])
            yield int(row[0]), f"{row[job]}/{row[task]}".encode(), fields
