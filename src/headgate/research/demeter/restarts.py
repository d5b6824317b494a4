"""When a job was started again in a measured run: for another size, or because a TaskManager was cut off.

The experiment cut one off every 45 minutes, under every contender; that is in its code and shows in the runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.base import FloatArray
from headgate.research.demeter.reading import BOUND_S, STEP_S, MeasuredRun

FAILURE_EVERY_S = 2700.0
_FAILURE_WITHIN_S = 150.0
_APART_S = 60.0
"""Changes of the size that are closer together are one restart."""
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
    """How long the oldest record had waited that came out then: about as long as the job stood still."""
    late_s: float
    """How long what came out was late."""


def restarts_of(run: MeasuredRun) -> list[Restart]:
    """The restarts of a run, in order; a size is that which the job had for ten seconds."""
    known = ~np.isnan(run.task_managers)
    times_s, sizes = run.t_s[known], run.task_managers[known]
    changed_s = times_s[1:][np.abs(np.diff(sizes)) > 0]
    spans: list[list[float]] = []
    for at_s in changed_s:
        if spans and at_s - spans[-1][1] <= _APART_S:
            spans[-1][1] = float(at_s)
        else:
            spans.append([float(at_s), float(at_s)])
    return [one for from_s, until_s in spans if (one := _restart(run, times_s, sizes, from_s, until_s)) is not None]


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


def quiet(run: MeasuredRun) -> NDArray[np.bool_]:
    """Where a job had kept up at one size for more than a minute."""
    sizes = run.task_managers
    calm = (run.latency_ms > 200) & (run.latency_ms < 2500) & (sizes == np.round(sizes)) & (sizes > 0)
    calm &= ~np.isnan(run.cpu_load) & ~np.isnan(run.throughput_per_s)
    found = calm.copy()
    for steps in range(1, 8):
        found[steps:] &= calm[:-steps] & (sizes[steps:] == sizes[:-steps])
        found[:steps] = False
    return np.asarray(found)
