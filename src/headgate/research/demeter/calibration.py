"""A model of each job, from the first repeat of its measured runs and nothing else.

- The load is the published curve times the generators, as the throughput of quiet times tells. The lag cannot be added
  to it: it is a mean over readers of the lag of the worst partition of each.
- CPU is a share that a TaskManager takes for nothing and a part in proportion to its records.
- A restart lasts as long as the oldest record had waited that came out after it, in the median; how long what came out
  was late then tells how fast the job caught up, and so what ``n`` TaskManagers can get through: ``capacity · n^γ``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.research.demeter.measured_runs import BOUND_S, STEP_S, MeasuredRun, Restart, curve, quiet, restarts_of

REPEAT = 1
"""The repeat that everything is chosen on."""
DEPLOYMENTS: Mapping[str, str] = {"fixed": "baseline", "reactive": "reactive", "operator": "operator"}
"""Ways to run the job, and the contender whose runs tell how long its restarts take."""
_GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
_BUSIEST = 0.95
_BURST_STEPS = 6
_LAGS = range(13)


@dataclass(frozen=True)
class JobModel:
    app: str
    factor: float
    """Records that arrived for one of the published curve."""
    shift_s: float
    """By how much a run is ahead of the curve."""
    capacity_per_s: float
    """Of one TaskManager alone."""
    gamma: float
    cold_factor: float
    """By how much a job is slower at first after TaskManagers joined."""
    idle_cpu: float
    records_per_cpu_s: float
    restart_cpu_s: float
    """Seconds of CPU per TaskManager that a restart takes beside the work that it has to make up for."""
    pause_s: Mapping[str, float]
    """How long a change of the size stops the job, by the way it is run."""
    failure_s: Mapping[str, float]
    cpu_noise: FloatArray
    """What CPU was off by at a fixed size, per ten seconds of the run."""
    rates_per_s: FloatArray
    """What arrived, per ten seconds."""

    def capacity(self, size: float) -> float:
        """Records per second that so many TaskManagers get through."""
        return float(self.capacity_per_s * size**self.gamma)

    def to_json(self) -> dict[str, JSON]:
        return {
            "app": self.app,
            "factor": round(self.factor, 3),
            "capacity_of_24_per_s": round(self.capacity(24)),
            "gamma": self.gamma,
            "cold_factor": self.cold_factor,
            "idle_cpu": round(self.idle_cpu, 3),
            "records_per_cpu_s": round(self.records_per_cpu_s),
            "restart_cpu_s": round(self.restart_cpu_s, 1),
            **{f"pause_{name}_s": round(pause_s, 1) for name, pause_s in self.pause_s.items()},
            **{f"failure_{name}_s": round(failure_s, 1) for name, failure_s in self.failure_s.items()},
        }


def calibrate(app: str, runs: Sequence[MeasuredRun]) -> JobModel:
    """The model of a job by the runs of the first repeat among these."""
    own = {run.contender: run for run in runs if run.app == app and run.repeat == REPEAT}
    for needed in DEPLOYMENTS.values():
        if needed not in own:
            raise InputError(f"there is no run of {app} by {needed} in repeat {REPEAT}; the model needs it.")
    fixed, reactive = own["baseline"], own["reactive"]
    factor, shift_s, rates = _load(app, fixed)
    idle, per_cpu_s = _cpu(reactive)
    restarts = {name: restarts_of(own[contender]) for name, contender in DEPLOYMENTS.items()}
    failure_s = {name: _median_s([one for one in found if one.is_failure]) for name, found in restarts.items()}
    pause_s = {name: _median_s([one for one in found if not one.is_failure]) for name, found in restarts.items()}
    # A job of a fixed size is never rescaled; what would stop it are failures.
    pause_s["fixed"] = failure_s["fixed"]
    seen = [*restarts["fixed"], *restarts["reactive"]]
    least = _least_capacity(reactive)
    grown = [one for one in seen if one.after > one.before and not one.is_failure]
    others = [one for one in seen if one not in grown]
    capacity, gamma = _capacity(others, rates, least)
    cold = _cold_factor(grown, rates, capacity, gamma)
    burst = _restart_cpu_s(reactive, restarts["reactive"], rates, idle, per_cpu_s)
    noise = _noise(fixed, rates)
    return JobModel(
        app, factor, shift_s, capacity, gamma, cold, idle, per_cpu_s, burst, pause_s, failure_s, noise, rates
    )


def _load(app: str, run: MeasuredRun) -> tuple[float, float, FloatArray]:
    """The factor, the shift and what arrived, by the throughput of quiet times."""
    told, calm = curve(app), quiet(run)
    steps = np.round(run.t_s / STEP_S)
    best = max(
        _LAGS, key=lambda lag: float(np.corrcoef(_at(told, steps[calm] + lag), run.throughput_per_s[calm])[0, 1])
    )
    factor = float(np.median(run.throughput_per_s[calm] / _at(told, steps[calm] + best)))
    return factor, best * STEP_S, factor * _at(told, np.arange(run.t_s[-1] // STEP_S) + best)


def _at(values: FloatArray, places: FloatArray) -> FloatArray:
    return np.asarray(values[np.clip(places, 0, len(values) - 1).astype(int)])


def _cpu(run: MeasuredRun) -> tuple[float, float]:
    """The share of CPU that a TaskManager takes for nothing, and the records of a second of CPU."""
    calm = quiet(run)
    each = run.throughput_per_s[calm] / run.task_managers[calm]
    slope, idle = np.polyfit(each, run.cpu_load[calm], 1)
    return float(idle), float(1 / slope)


def _median_s(restarts: Sequence[Restart]) -> float:
    return float(np.median([one.oldest_s for one in restarts])) if restarts else 0.0


def _least_capacity(run: MeasuredRun) -> FloatArray:
    """Sizes, and what each was seen to get through without falling behind."""
    calm = quiet(run)
    sizes = np.unique(run.task_managers[calm])
    most = [float(np.quantile(run.throughput_per_s[calm & (run.task_managers == size)], 0.99)) for size in sizes]
    return np.column_stack([sizes, most])


def _offered(restarts: Sequence[Restart], rates: FloatArray) -> FloatArray:
    return _at(rates, np.array([one.until_s / STEP_S for one in restarts]))


def _late_s(waited_s: FloatArray, busy: FloatArray) -> FloatArray:
    """How long what comes out is late after so long a standstill, of a job that will be so busy."""
    busy = np.minimum(busy, _BUSIEST)
    return np.asarray(np.maximum(0.0, waited_s - BOUND_S) * busy / (1 - busy))


def _capacity(restarts: Sequence[Restart], rates: FloatArray, least: FloatArray) -> tuple[float, float]:
    """What one TaskManager gets through and how several add up, by how fast the job caught up after restarts."""
    sizes = np.array([one.after for one in restarts], dtype=np.float64)
    waited_s, seen_s = (np.array([getattr(one, name) for one in restarts]) for name in ("oldest_s", "late_s"))
    offered = _offered(restarts, rates)
    best = (np.inf, 0.0, 1.0)
    for gamma in _GAMMAS:
        lowest = float(np.max(least[:, 1] / least[:, 0] ** gamma))
        for capacity in lowest * np.geomspace(1.0, 8.0, 60):
            off = float(np.mean((_late_s(waited_s, offered / (capacity * sizes**gamma)) - seen_s) ** 2))
            if off < best[0]:
                best = (off, float(capacity), gamma)
    return best[1], best[2]


def _cold_factor(restarts: Sequence[Restart], rates: FloatArray, capacity: float, gamma: float) -> float:
    """By how much slower it caught up where TaskManagers had joined."""
    if not restarts:
        return 1.0
    sizes = np.array([one.after for one in restarts], dtype=np.float64)
    waited_s, seen_s = (np.array([getattr(one, name) for one in restarts]) for name in ("oldest_s", "late_s"))
    busy = _offered(restarts, rates) / (capacity * sizes**gamma)
    tried = np.linspace(1.0, 3.0, 21)
    off = [abs(float(_late_s(waited_s, busy * cold).mean() - seen_s.mean())) for cold in tried]
    return round(float(tried[int(np.argmin(off))]), 2)


def _restart_cpu_s(
    run: MeasuredRun, restarts: Sequence[Restart], rates: FloatArray, idle: float, per_cpu_s: float
) -> float:
    """CPU of the minute after a restart beyond what its load takes, and the records that had waited."""
    found = []
    for one in restarts:
        first = int(np.searchsorted(run.t_s, one.from_s))
        cpu = run.cpu_load[first : first + _BURST_STEPS]
        if one.is_failure or one.until_s - one.from_s > 3 * STEP_S or np.isnan(cpu).any() or len(cpu) < _BURST_STEPS:
            continue
        each = float(_at(rates, np.array([one.until_s / STEP_S]))[0]) / one.after / per_cpu_s
        found.append(float((cpu - idle - each).sum()) * STEP_S - each * one.oldest_s)
    return max(0.0, float(np.mean(found))) if found else 0.0


def _noise(run: MeasuredRun, rates: FloatArray) -> FloatArray:
    """What CPU was off by where a job of a fixed size kept up; 0 where it did not."""
    idle, per_cpu_s = _cpu(run)
    off = run.cpu_load - idle - run.throughput_per_s / run.task_managers / per_cpu_s
    noise = np.zeros(len(rates))
    steps = np.round(run.t_s / STEP_S).astype(int)
    usable = quiet(run) & (steps < len(noise))
    noise[steps[usable]] = off[usable]
    return noise
