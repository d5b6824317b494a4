"""The simulated runs, kept on disk as they end; those of other code or other data are never taken for these."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from headgate.core.types import JSON
from headgate.lab.code_state import fingerprint
from headgate.lab.kept_lines import KeptLines
from headgate.research.demeter.matrix import Task
from headgate.research.demeter.reading import APPS, MeasuredRun, curve
from headgate.research.demeter.running import Ran

FORMAT_VERSION = 1
DECISIVE = (
    "core",
    "forecast",
    *(f"research/demeter/{name}.py" for name in ("calibration", "job", "matrix", "reading", "restarts", "running")),
    "policies",
    "runtime",
    "simulation",
    "workloads",
)
"""The code that a run depends on, in the folder of the package."""


class KeptRuns:
    """The runs of one state of the code and of the data."""

    def __init__(self, runs: Sequence[MeasuredRun], folder: Path | None = None) -> None:
        self._lines = KeptLines("demeter", fingerprint(DECISIVE, FORMAT_VERSION), FORMAT_VERSION, folder)
        found = hashlib.sha256()
        for app in APPS:
            found.update(np.ascontiguousarray(curve(app)).tobytes())
        for run in runs:
            found.update(f"{run.app} {run.contender} {run.repeat}".encode())
            for column in (run.t_s, run.throughput_per_s, run.latency_ms, run.latency_max_ms, run.cpu_load):
                found.update(np.ascontiguousarray(column).tobytes())
            found.update(np.ascontiguousarray(run.task_managers).tobytes())
        self._data = found.hexdigest()[:16]

    def get(self, task: Task) -> Ran | None:
        kept = self._lines.get(self._asked(task))
        return None if kept is None else Ran(**{**kept, "sizes": tuple(kept["sizes"])})

    def add(self, task: Task, ran: Ran) -> None:
        self._lines.add(self._asked(task), asdict(ran))

    def _asked(self, task: Task) -> dict[str, JSON]:
        return asdict(task) | {"data": self._data}
