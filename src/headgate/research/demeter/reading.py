"""The measured runs, one value per ten seconds each, and the load that they had."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from headgate.core.errors import InputError, cause_of
from headgate.forecast.base import FloatArray
from headgate.workloads.traces import read_trace, trace_folder

STEP_S = 10.0
BOUND_S = 10.0
"""A second is late if what comes out in it is older than this; the document's bound."""
APPS = ("ADS", "CARS")
CONTENDERS = ("baseline", "reactive", "operator", "demeter")
_FILE = Path("demeter-runs") / "runs-10s.csv.gz"


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """One run of eighteen hours; a value that was not reported is NaN."""

    app: str
    contender: str
    repeat: int
    t_s: FloatArray
    throughput_per_s: FloatArray
    latency_ms: FloatArray
    """95th percentile of what came out, mean of the ten seconds; 0 or nothing while the job stands still."""
    latency_max_ms: FloatArray
    cpu_load: FloatArray
    task_managers: FloatArray

    @property
    def mean_size(self) -> float:
        return float(np.nanmean(self.task_managers))

    @property
    def late_share(self) -> float:
        """Share of the ten-second means that were reported and are above the bound."""
        known = self.latency_ms[~np.isnan(self.latency_ms)]
        return float(np.mean(known > 1000 * BOUND_S))


_SERIES = tuple(field.name for field in fields(MeasuredRun) if field.name not in ("app", "contender", "repeat"))


def read_runs() -> list[MeasuredRun]:
    """All runs of the file, whatever their repeats."""
    return list(_read(trace_folder().resolve() / _FILE))


@cache
def _read(path: Path) -> Sequence[MeasuredRun]:
    found: dict[tuple[str, str, int], list[list[float]]] = {}
    try:
        with gzip.open(path, "rt", newline="") as file:
            lines = csv.reader(file)
            head = next(lines)
            places = [_place(head, name, path) for name in ("app", "contender", "repeat", *_SERIES)]
            for line in lines:
                app, contender, repeat, *values = (line[place] for place in places)
                found.setdefault((app, contender, int(repeat)), []).append([_number(one) for one in values])
    except OSError as error:
        raise InputError(f"the runs of Demeter cannot be read from {str(path)!r}: {cause_of(error)}.") from error
    except (ValueError, IndexError, StopIteration, EOFError) as error:
        raise InputError(f"{str(path)!r} is not a table of runs as it is published: {error}.") from error
    return [
        MeasuredRun(app, contender, repeat, *np.array(values).T)
        for (app, contender, repeat), values in sorted(found.items())
    ]


def _place(head: Sequence[str], name: str, path: Path) -> int:
    if name not in head:
        raise InputError(f"{str(path)!r} has no column {name!r}; it has {', '.join(head)}.")
    return head.index(name)


def _number(text: str) -> float:
    return float(text) if text else float("nan")


def curve(app: str) -> FloatArray:
    """Records per second that one of the load generators was told to make, per ten seconds."""
    return read_trace(f"demeter-{app.lower()}").rates_per_s
