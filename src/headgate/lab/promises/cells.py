"""One run: a policy on a load, and what it delivered for each level that is asked of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.lab.promises.clairvoyant import clairvoyant_sizes
from headgate.lab.promises.loads import SERVICE_RATE_PER_S, STEP_S, Load
from headgate.runtime.simulate import simulate
from headgate.runtime.summary import Summary
from headgate.simulation.micro_batch import MicroBatch

JOB = MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5)
"""A job as people run them: a batch every two seconds, if it can."""
INTERVAL_S = 10.0
STARTUP_SPREAD = 0.2
BOUNDS = (1, 40)


@dataclass(frozen=True)
class Run:
    """What a policy came to on a load; the levels that were asked for may be many."""

    policy: str
    late_share: float
    instance_seconds: float
    rescales_per_hour: float
    undone: int
    """Pairs of changes that undid each other within two minutes."""
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
    load: Load,
    slo: LatencySlo,
    *,
    startup_s: float,
    settings: Mapping[str, object] | None = None,
    size: int | None = None,
) -> Run:
    """Simulate a day, with readings as Spark gives them; a fixed ``size`` where one is given."""
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
    changes = [(one.at_s, one.verdicts["job"].change) for one in result.decisions if one.verdicts["job"].change]
    return _of(policy, result.summary, changes, load.seconds)


def _of(policy: str, summary: Summary, changes: list[tuple[float, int]], seconds: float) -> Run:
    undone = sum(
        after_s - before_s <= 120 and before * after < 0 for (before_s, before), (after_s, after) in pairwise(changes)
    )
    return Run(
        policy,
        (summary.late_records_pct or 0.0) / 100,
        summary.instance_seconds,
        len(changes) * 3600 / seconds,
        undone,
        summary.latency_p95_s,
    )


def first_size(load: Load) -> int:
    """As many as the first minute needs: no policy is to be judged by how it was started."""
    rate = float(load.rates_per_s[: round(60 / STEP_S)].mean())
    return max(BOUNDS[0], math.ceil(rate / SERVICE_RATE_PER_S * 1.2))


def clairvoyant_seconds(load: Load, bound_s: float, startup_s: float) -> float:
    """Instance-seconds of somebody who knew the load."""
    sizes = clairvoyant_sizes(load, bound_s=bound_s, overhead_s=JOB.overhead_s, startup_s=startup_s, bounds=BOUNDS)
    return float(sizes.sum() * STEP_S)
