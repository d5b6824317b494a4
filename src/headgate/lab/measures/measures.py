"""What one simulated run came to, in measures that people in the field know; ``docs/guides/measures.md`` tells them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headgate.core.errors import InputError
from headgate.core.objective import HOUR_S, Objective
from headgate.core.slo import DAY_S, LatencySlo
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.lab.measures.elasticity import elasticity
from headgate.lab.measures.recovery import recovery
from headgate.runtime.simulate import Model, SimulationResult, micro_batch
from headgate.runtime.summary import violated_parts
from headgate.workloads.contract import Workload


def step_rates_per_s(workload: Workload, seconds: float, step_s: float) -> FloatArray:
    """Records per second, the mean of each step; the last step may be cut off.

    It is kept for the next who asks, as many policies are measured on one load.
    """
    return _cached_rates(_Load(workload), seconds, step_s)


def step_edges_s(seconds: float, step_s: float) -> FloatArray:
    """Where steps begin, and where the last one ends."""
    count = max(1, int(np.ceil(seconds / step_s - 1e-9)))
    return np.append(np.arange(count) * step_s, seconds)


class _Load(Hashable):
    """A workload that is itself only: two that are equal may not know it, and some cannot be hashed."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Load) and other.workload is self.workload


@lru_cache(maxsize=16)
def _cached_rates(load: _Load, seconds: float, step_s: float) -> FloatArray:
    edges_s = step_edges_s(seconds, step_s)
    arrived = np.array([load.workload.arrivals(0.0, edge_s) for edge_s in edges_s.tolist()])
    rates: FloatArray = np.diff(arrived) / np.diff(edges_s)
    rates.flags.writeable = False
    return rates


STEP_S = 5.0
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Measures:
    """Flat, with units in the names; ``None`` is what cannot be said of this run."""

    records_in_objective_pct: float | None
    """Share of the records in time; of a latency objective."""
    time_in_objective_pct: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    instance_hours: float
    cost: float | None
    """In the unit of the price."""
    mean_instances: float
    """Ready ones."""
    rescales_per_day: float
    worst_backlog_records: float | None
    violations: int | None
    recovery_median_s: float | None
    recovery_worst_s: float | None
    violated_at_end: bool | None
    under_accuracy_pct: float
    """θ_U"""
    over_accuracy_pct: float
    """θ_O"""
    under_time_pct: float
    """τ_U"""
    over_time_pct: float
    """τ_O"""
    instability_pct: float | None
    """υ"""
    clairvoyant_instance_hours: float
    regret_pct: float | None
    """By how much more was paid than the clairvoyant pays; below 0 where less was, at the cost of late records."""

    def to_json(self) -> dict[str, JSON]:
        """Plain numbers under the names of the fields."""
        return {name: _rounded(value) for name, value in dataclasses.asdict(self).items()}


def measures_of(
    result: SimulationResult,
    workload: Workload,
    *,
    objective: Objective,
    service_rate_per_s: float,
    model: Model = "queue",
    startup_s: float = 0.0,
    work: Workload | None = None,
    step_s: float = STEP_S,
) -> Measures:
    """Measure a run; what it is given beside ``result`` is what :func:`~headgate.runtime.simulate.simulate` was given.

    Demand and the clairvoyant are reckoned in steps of ``step_s``; all else is exact.
    """
    if not 0 < step_s < math.inf:
        raise InputError(f"step_s {step_s} is not allowed; it must be finite and above 0.")
    course, operator = result.record.truth, result.record.operator
    if course is None:
        raise InputError("a run without its true course cannot be measured; only simulated runs have one.")
    summary, seconds = result.summary, course.to_s - course.from_s
    slo = objective.slo_of(operator)
    edges_s = step_edges_s(seconds, step_s)
    needed = needed_instances(
        step_rates_per_s(work or workload, seconds, step_s),
        step_s,
        service_rate_per_s=service_rate_per_s,
        job=None if model == "queue" else micro_batch(model),
        bound_s=slo.bound_s if isinstance(slo, LatencySlo) else None,
        bounds=(objective.min_instances, objective.max_instances),
    )
    # Not a scalar product: that would be spread over threads, and rounded as many of them as there are.
    clairvoyant_s = float((paid_instances(needed, step_s, startup_s) * (edges_s[1:] - edges_s[:-1])).sum())
    followed = elasticity(course.sizes, edges_s, needed)
    parts = violated_parts(course, objective, operator)
    recovered = None if parts is None else recovery(parts, course.from_s, course.to_s)
    late_pct, violated_pct = summary.late_records_pct, summary.slo_violation_pct
    return Measures(
        records_in_objective_pct=None if late_pct is None else 100 - late_pct,
        time_in_objective_pct=None if violated_pct is None else 100 - violated_pct,
        latency_p50_s=summary.latency_p50_s,
        latency_p95_s=summary.latency_p95_s,
        latency_p99_s=summary.latency_p99_s,
        instance_hours=summary.instance_seconds / HOUR_S,
        cost=summary.cost,
        mean_instances=summary.mean_instances,
        rescales_per_day=summary.rescales * DAY_S / seconds,
        worst_backlog_records=summary.max_backlog,
        violations=None if recovered is None else recovered.violations,
        recovery_median_s=None if recovered is None else recovered.median_s,
        recovery_worst_s=None if recovered is None else recovered.worst_s,
        violated_at_end=None if recovered is None else recovered.is_violated_at_end,
        under_accuracy_pct=followed.under_accuracy_pct,
        over_accuracy_pct=followed.over_accuracy_pct,
        under_time_pct=followed.under_time_pct,
        over_time_pct=followed.over_time_pct,
        instability_pct=followed.instability_pct,
        clairvoyant_instance_hours=clairvoyant_s / HOUR_S,
        regret_pct=100 * (summary.instance_seconds / clairvoyant_s - 1) if clairvoyant_s else None,
    )


def _rounded(value: JSON) -> JSON:
    """A number that JSON can hold."""
    if not isinstance(value, float):
        return value
    return round(value, _DIGITS) if math.isfinite(value) else None
