"""Runs of policies on a day of a load, with the figures that they are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.day_load import STEP_S, day_names, make_day
from headgate.workloads.steps import Steps

SERVICE_RATE_PER_S = 50.0
PEAK_INSTANCES = 12.0
FIXED = "best-fixed"
"""The smallest fixed size that meets the objective, known only afterwards; not a policy."""


@dataclass(frozen=True)
class LoadDay:
    """A day of a load."""

    name: str
    seed: int
    kind: str
    """``smooth``, ``noisy`` or ``bursty``."""
    chosen_on: bool
    """Whether constants were chosen on it; the other loads validate them."""
    factor: float
    """Records per record of the trace."""
    rates_per_s: FloatArray
    """A rate per ``STEP_S``."""

    @property
    def seconds(self) -> float:
        return len(self.rates_per_s) * STEP_S

    @property
    def workload(self) -> Steps:
        return Steps(
            [STEP_S * index for index in range(len(self.rates_per_s) + 1)],
            [float(rate) for rate in self.rates_per_s],
            f"{self.name}, day {self.seed}",
        )


def load_names() -> list[str]:
    """Return all loads, generated ones first."""
    return day_names()


@cache
def make_load(name: str, seed: int = 0) -> LoadDay:
    """Return a load by name; real loads need the folder of traces."""
    day = make_day(name, seed, PEAK_INSTANCES * SERVICE_RATE_PER_S)
    return LoadDay(name, seed, day.kind, load_names().index(name) % 2 == 0, day.factor, day.rates_per_s)


JOB = MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5)
"""A typical job with a trigger of two seconds."""
INTERVAL_S = 10.0
STARTUP_SPREAD = 0.2
BOUNDS = (1, 40)
UNDONE_WITHIN_S = 120.0
LOAD_BEFORE_S = 30.0
"""The load at a change is the mean arrival rate of this many seconds before it."""
THE_SAME_LOAD = 0.1
"""A load that changed by less than this share does not justify undoing a change."""


@dataclass(frozen=True)
class DayRun:
    """The figures of a policy on a day; it may be judged at several levels."""

    policy: str
    late_share: float
    instance_seconds: float
    rescales_per_hour: float
    undone: int
    """Pairs of changes that undid each other within two minutes at the same load."""
    latency_p95_s: float | None

    def to_json(self) -> dict[str, JSON]:
        return {
            "policy": self.policy,
            "late_pct": round(100 * self.late_share, 3),
            "instance_hours": round(self.instance_seconds / 3600, 2),
            "rescales_per_hour": round(self.rescales_per_hour, 2),
            "undone": self.undone,
        }


def run(
    policy: str,
    load: LoadDay,
    slo: LatencySlo,
    *,
    startup_s: float,
    settings: Mapping[str, object] | None = None,
    size: int | None = None,
) -> DayRun:
    """Simulate a day with readings like Spark's, with a policy or a fixed ``size``."""
    bounds = BOUNDS if size is None else (size, size)
    result = simulate(
        policy,
        load.workload,
        objective=Objective(slo, *bounds),
        settings=settings,
        service_rate_per_s=SERVICE_RATE_PER_S,
        model=JOB,
        start=first_size(load) if size is None else size,
        startup_s=startup_s,
        startup_spread=STARTUP_SPREAD,
        interval_s=INTERVAL_S,
        seconds=load.seconds,
        seed=load.seed,
    )
    changes = [(decision.at_s, change) for decision in result.decisions if (change := decision.verdicts["job"].change)]
    summary = result.summary
    return DayRun(
        policy,
        (summary.late_records_pct or 0.0) / 100,
        summary.instance_seconds,
        len(changes) * 3600 / load.seconds,
        undone_pairs(changes, load),
        summary.latency_p95_s,
    )


def undone_pairs(changes: Sequence[tuple[float, int]], load: LoadDay) -> int:
    """Count pairs of changes of which the second soon undoes the first although the load is the same."""

    def rate_per_s(until_s: float) -> float:
        last = max(1, round(until_s / STEP_S))
        return float(load.rates_per_s[max(0, last - round(LOAD_BEFORE_S / STEP_S)) : last].mean())

    return sum(
        after_s - before_s <= UNDONE_WITHIN_S
        and before * after < 0
        and abs(rate_per_s(after_s) - rate_per_s(before_s)) <= THE_SAME_LOAD * rate_per_s(before_s)
        for (before_s, before), (after_s, after) in pairwise(changes)
    )


def first_size(load: LoadDay) -> int:
    """Return the size that the first minute needs, so that the start does not decide a comparison."""
    rate = float(load.rates_per_s[: round(60 / STEP_S)].mean())
    return max(BOUNDS[0], math.ceil(rate / SERVICE_RATE_PER_S * 1.2))


def clairvoyant_sizes(
    load: LoadDay, *, job: MicroBatch, bound_s: float, startup_s: float, bounds: tuple[int, int]
) -> FloatArray:
    """Return the paid instances of a scaler that knows the load, one value per ``STEP_S``."""
    needed = needed_instances(
        load.rates_per_s, STEP_S, service_rate_per_s=SERVICE_RATE_PER_S, job=job, bound_s=bound_s, bounds=bounds
    )
    return paid_instances(needed, STEP_S, startup_s)


def clairvoyant_seconds(load: LoadDay, bound_s: float, startup_s: float) -> float:
    """Return the instance-seconds of a scaler that knows the load."""
    sizes = clairvoyant_sizes(load, job=JOB, bound_s=bound_s, startup_s=startup_s, bounds=BOUNDS)
    return float(sizes.sum() * STEP_S)


@dataclass(frozen=True, order=True)
class DayTask:
    policy: str
    load: str
    seed: int
    bound_s: float
    startup_s: float
    percentile: float
    size: int | None = None


def run_task(task: DayTask) -> list[DayRun]:
    load = make_load(task.load, task.seed)
    slo = LatencySlo(bound_s=task.bound_s, percentile=task.percentile)
    if task.policy == FIXED:
        return _fixed_sizes(task, slo)
    return [run(task.policy, load, slo, startup_s=task.startup_s)]


def _fixed_sizes(task: DayTask, slo: LatencySlo) -> list[DayRun]:
    """Run fixed sizes, from the smallest that sustains the mean rate to the first with no late records."""
    load = make_load(task.load, task.seed)
    found: list[DayRun] = []
    for size in range(max(1, int(load.rates_per_s.mean() / SERVICE_RATE_PER_S)), BOUNDS[1] + 1):
        tried = run("static", load, slo, startup_s=0.0, size=size)
        found.append(DayRun(FIXED, tried.late_share, tried.instance_seconds, 0.0, 0, tried.latency_p95_s))
        if tried.late_share == 0:
            break
    return found
