"""The published runs, with one value per ten seconds, their load and the restarts found in them."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, cause_of
from headgate.forecast.base import FloatArray
from headgate.workloads.traces import read_trace, trace_folder

STEP_S = 10.0
BOUND_S = 10.0
"""The document's latency bound."""
APPS = ("ADS", "CARS")
CONTENDERS = ("baseline", "reactive", "operator", "demeter")
_FILE = Path("demeter-runs") / "runs-10s.csv.gz"


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A run of eighteen hours; values that were not reported are NaN."""

    app: str
    contender: str
    repeat: int
    t_s: FloatArray
    throughput_per_s: FloatArray
    latency_ms: FloatArray
    """95th percentile of the output, mean of ten seconds; 0 or NaN while the job is stopped."""
    latency_max_ms: FloatArray
    cpu_load: FloatArray
    task_managers: FloatArray

    @property
    def mean_size(self) -> float:
        return float(np.nanmean(self.task_managers))

    @property
    def late_share(self) -> float:
        """The share of the reported ten-second means that are above the bound."""
        known = self.latency_ms[~np.isnan(self.latency_ms)]
        return float(np.mean(known > 1000 * BOUND_S))


_SERIES = tuple(field.name for field in fields(MeasuredRun) if field.name not in ("app", "contender", "repeat"))


def read_runs() -> list[MeasuredRun]:
    """Return all runs of the file, of every repeat."""
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
                found.setdefault((app, contender, int(repeat)), []).append([_number(value) for value in values])
    except OSError as error:
        raise InputError(f"the runs of Demeter cannot be read from {str(path)!r}: {cause_of(error)}.") from error
    except (ValueError, IndexError, StopIteration, EOFError) as error:
        raise InputError(f"{str(path)!r} is not a table of runs in the published format: {error}.") from error
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
    """Return the target rate of one load generator in records per second, one value per ten seconds."""
    return read_trace(f"demeter-{app.lower()}").rates_per_s


FAILURE_EVERY_S = 2700.0
_FAILURE_WITHIN_S = 150.0
_APART_S = 60.0
"""Changes of the size that are closer together count as a single restart."""
_WATCHED_S = 90.0


@dataclass(frozen=True)
class Restart:
    from_s: float
    until_s: float
    """When the size changed for the last time."""
    before: int
    after: int
    is_failure: bool
    oldest_s: float
    """How long the oldest record emitted afterwards had waited: about as long as the job was stopped."""
    late_s: float
    """How long the output was late."""


def restarts_of(run: MeasuredRun) -> list[Restart]:
    """Return the restarts of a run in order, with the size that the job had for ten seconds before and after."""
    known = ~np.isnan(run.task_managers)
    times_s, sizes = run.t_s[known], run.task_managers[known]
    changed_s = times_s[1:][np.abs(np.diff(sizes)) > 0]
    spans: list[list[float]] = []
    for at_s in changed_s:
        if spans and at_s - spans[-1][1] <= _APART_S:
            spans[-1][1] = float(at_s)
        else:
            spans.append([float(at_s), float(at_s)])
    return [
        restart for from_s, until_s in spans if (restart := _restart(run, times_s, sizes, from_s, until_s)) is not None
    ]


def _restart(run: MeasuredRun, times_s: FloatArray, sizes: FloatArray, from_s: float, until_s: float) -> Restart | None:
    before, after = sizes[times_s < from_s - STEP_S], sizes[times_s > until_s]
    watched = (run.t_s >= from_s - 2 * STEP_S) & (run.t_s <= until_s + _WATCHED_S)
    oldest_ms = run.latency_max_ms[watched]
    if not len(before) or not len(after) or np.isnan(oldest_ms).all():
        return None
    is_failure = from_s >= FAILURE_EVERY_S and from_s % FAILURE_EVERY_S < _FAILURE_WITHIN_S
    late_s = STEP_S * float(np.nansum(run.latency_ms[watched] > 1000 * BOUND_S))
    size = max(1, round(float(after[0])))
    return Restart(
        from_s, until_s, max(1, round(float(before[-1]))), size, is_failure, float(np.nanmax(oldest_ms)) / 1000, late_s
    )


def steady_steps(run: MeasuredRun) -> NDArray[np.bool_]:
    """Return where a job had been at the same size without falling behind for more than a minute."""
    sizes = run.task_managers
    steady = (run.latency_ms > 200) & (run.latency_ms < 2500) & (sizes == np.round(sizes)) & (sizes > 0)
    steady &= ~np.isnan(run.cpu_load) & ~np.isnan(run.throughput_per_s)
    found = steady.copy()
    for steps in range(1, 8):
        found[steps:] &= steady[:-steps] & (sizes[steps:] == sizes[:-steps])
        found[:steps] = False
    return np.asarray(found)


def data_hash(runs: Sequence[MeasuredRun]) -> str:
    """Return a hash of the measured data that simulations depend on."""
    digest = hashlib.sha256()
    for app in APPS:
        digest.update(np.ascontiguousarray(curve(app)).tobytes())
    for run in runs:
        digest.update(f"{run.app} {run.contender} {run.repeat}".encode())
        for name in _SERIES:
            digest.update(np.ascontiguousarray(getattr(run, name)).tobytes())
    return digest.hexdigest()[:16]
