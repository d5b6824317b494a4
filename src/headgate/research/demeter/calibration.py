"""A model of each job, calibrated on the first repeat of its measured runs only.

- The load is the published curve, scaled to the throughput of steady periods. The reported lag cannot be added to it:
  it is a mean over readers of the lag of the worst partition of each.
- CPU is an idle share per TaskManager plus a part in proportion to its records.
- A restart lasts as long as the oldest record emitted after it had waited, in the median. How long the output was late
  afterwards shows how fast the job caught up, and so the capacity of ``n`` TaskManagers: ``capacity · n^γ``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.research.demeter.measured_runs import (
    BOUND_S,
    STEP_S,
    MeasuredRun,
    Restart,
    curve,
    restarts_of,
    steady_steps,
)

REPEAT = 1
"""The repeat that the model is calibrated on."""
DEPLOYMENTS: Mapping[str, str] = {"fixed": "baseline", "reactive": "reactive", "operator": "operator"}
"""Ways to deploy the job, and the contender whose runs show how long its restarts take."""
_GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
_BUSIEST = 0.95
_BURST_STEPS = 6
_LAGS = range(13)


@dataclass(frozen=True)
class JobModel:
    app: str
    factor: float
    """Records that arrived per record of the published curve."""
    shift_s: float
    """How far a run is ahead of the curve."""
    capacity_per_s: float
    """Of one TaskManager alone."""
    gamma: float
    cold_factor: float
    """How many times slower a job is at first after TaskManagers joined."""
    idle_cpu: float
    records_per_cpu_s: float
    restart_cpu_s: float
    """Seconds of CPU per TaskManager that a restart takes in addition to the work it has to make up for."""
    pause_s: Mapping[str, float]
    """How long a rescale stops the job, by deployment."""
    failure_s: Mapping[str, float]
    cpu_noise: FloatArray
    """Residual of the CPU model at a fixed size, per ten seconds of the run."""
    rates_per_s: FloatArray
    """Arrivals per second, one value per ten seconds."""

    def capacity(self, size: float) -> float:
        """Return the records per second that this many TaskManagers can process."""
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
    """Calibrate the model of a job on its runs of the first repeat."""
    own = {run.contender: run for run in runs if run.app == app and run.repeat == REPEAT}
    for needed in DEPLOYMENTS.values():
        if needed not in own:
            raise InputError(f"there is no run of {app} by {needed} in repeat {REPEAT}; the model needs it.")
    fixed, reactive = own["baseline"], own["reactive"]
    factor, shift_s, rates = _load(app, fixed)
    idle, per_cpu_s = _cpu(reactive)
    restarts = {name: restarts_of(own[contender]) for name, contender in DEPLOYMENTS.items()}
    failure_s = {
        name: _median_s([restart for restart in found if restart.is_failure]) for name, found in restarts.items()
    }
    pause_s = {
        name: _median_s([restart for restart in found if not restart.is_failure]) for name, found in restarts.items()
    }
    # A job of a fixed size is never rescaled; only failures stop it.
    pause_s["fixed"] = failure_s["fixed"]
    observed = [*restarts["fixed"], *restarts["reactive"]]
    least = _least_capacity(reactive)
    grown = [restart for restart in observed if restart.after > restart.before and not restart.is_failure]
    others = [restart for restart in observed if restart not in grown]
    capacity, gamma = _capacity(others, rates, least)
    cold = _cold_factor(grown, rates, capacity, gamma)
    burst = _restart_cpu_s(reactive, restarts["reactive"], rates, idle, per_cpu_s)
    noise = _noise(fixed, rates)
    return JobModel(
        app, factor, shift_s, capacity, gamma, cold, idle, per_cpu_s, burst, pause_s, failure_s, noise, rates
    )


def _load(app: str, run: MeasuredRun) -> tuple[float, float, FloatArray]:
    """Return the factor, the shift and the arrivals, from the throughput of steady periods."""
    published, steady = curve(app), steady_steps(run)
    steps = np.round(run.t_s / STEP_S)
    best = max(
        _LAGS,
        key=lambda lag: float(np.corrcoef(_at(published, steps[steady] + lag), run.throughput_per_s[steady])[0, 1]),
    )
    factor = float(np.median(run.throughput_per_s[steady] / _at(published, steps[steady] + best)))
    return factor, best * STEP_S, factor * _at(published, np.arange(run.t_s[-1] // STEP_S) + best)


def _at(values: FloatArray, places: FloatArray) -> FloatArray:
    return np.asarray(values[np.clip(places, 0, len(values) - 1).astype(int)])


def _cpu(run: MeasuredRun) -> tuple[float, float]:
    """Return the idle share of CPU of a TaskManager, and the records that a second of CPU processes."""
    steady = steady_steps(run)
    each = run.throughput_per_s[steady] / run.task_managers[steady]
    slope, idle = np.polyfit(each, run.cpu_load[steady], 1)
    return float(idle), float(1 / slope)


def _median_s(restarts: Sequence[Restart]) -> float:
    return float(np.median([restart.oldest_s for restart in restarts])) if restarts else 0.0


def _least_capacity(run: MeasuredRun) -> FloatArray:
    """Return sizes with the throughput that each sustained without falling behind."""
    steady = steady_steps(run)
    sizes = np.unique(run.task_managers[steady])
    most = [float(np.quantile(run.throughput_per_s[steady & (run.task_managers == size)], 0.99)) for size in sizes]
    return np.column_stack([sizes, most])


def _offered(restarts: Sequence[Restart], rates: FloatArray) -> FloatArray:
    return _at(rates, np.array([restart.until_s / STEP_S for restart in restarts]))


def _late_s(waited_s: FloatArray, busy: FloatArray) -> FloatArray:
    """Return how long the output of a job with this utilisation is late after a standstill."""
    busy = np.minimum(busy, _BUSIEST)
    return np.asarray(np.maximum(0.0, waited_s - BOUND_S) * busy / (1 - busy))


def _capacity(restarts: Sequence[Restart], rates: FloatArray, least: FloatArray) -> tuple[float, float]:
    """Return the capacity of one TaskManager and the exponent γ, from how fast the job caught up after restarts."""
    sizes = np.array([restart.after for restart in restarts], dtype=np.float64)
    waited_s, late_s = (np.array([getattr(restart, name) for restart in restarts]) for name in ("oldest_s", "late_s"))
    offered = _offered(restarts, rates)
    best = (np.inf, 0.0, 1.0)
    for gamma in _GAMMAS:
        lowest = float(np.max(least[:, 1] / least[:, 0] ** gamma))
        for capacity in lowest * np.geomspace(1.0, 8.0, 60):
            off = float(np.mean((_late_s(waited_s, offered / (capacity * sizes**gamma)) - late_s) ** 2))
            if off < best[0]:
                best = (off, float(capacity), gamma)
    return best[1], best[2]


def _cold_factor(restarts: Sequence[Restart], rates: FloatArray, capacity: float, gamma: float) -> float:
    """Return how many times slower the job caught up after TaskManagers had joined."""
    if not restarts:
        return 1.0
    sizes = np.array([restart.after for restart in restarts], dtype=np.float64)
    waited_s, late_s = (np.array([getattr(restart, name) for restart in restarts]) for name in ("oldest_s", "late_s"))
    busy = _offered(restarts, rates) / (capacity * sizes**gamma)
    tried = np.linspace(1.0, 3.0, 21)
    off = [abs(float(_late_s(waited_s, busy * cold).mean() - late_s.mean())) for cold in tried]
    return round(float(tried[int(np.argmin(off))]), 2)


def _restart_cpu_s(
    run: MeasuredRun, restarts: Sequence[Restart], rates: FloatArray, idle: float, per_cpu_s: float
) -> float:
    """Return the CPU used in the minute after a restart beyond that of its load and of the records that had waited."""
    found = []
    for restart in restarts:
        first = int(np.searchsorted(run.t_s, restart.from_s))
        cpu = run.cpu_load[first : first + _BURST_STEPS]
        if (
            restart.is_failure
            or restart.until_s - restart.from_s > 3 * STEP_S
            or np.isnan(cpu).any()
            or len(cpu) < _BURST_STEPS
        ):
            continue
        each = float(_at(rates, np.array([restart.until_s / STEP_S]))[0]) / restart.after / per_cpu_s
        found.append(float((cpu - idle - each).sum()) * STEP_S - each * restart.oldest_s)
    return max(0.0, float(np.mean(found))) if found else 0.0


def _noise(run: MeasuredRun, rates: FloatArray) -> FloatArray:
    """Return the residual of the CPU model where a job of a fixed size was not behind; 0 elsewhere."""
    idle, per_cpu_s = _cpu(run)
    off = run.cpu_load - idle - run.throughput_per_s / run.task_managers / per_cpu_s
    noise = np.zeros(len(rates))
    steps = np.round(run.t_s / STEP_S).astype(int)
    usable = steady_steps(run) & (steps < len(noise))
    noise[steps[usable]] = off[usable]
    return noise
