"""One run: a policy on a load, and what it delivered for each level that is asked of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.research.promises.clairvoyant import clairvoyant_sizes
from headgate.research.promises.loads import SERVICE_RATE_PER_S, Load
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.day_load import STEP_S

JOB = MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5)
"""A job as people run them: a batch every two seconds, if it can."""
INTERVAL_S = 10.0
STARTUP_SPREAD = 0.2
BOUNDS = (1, 40)
UNDONE_WITHIN_S = 120.0
LOAD_BEFORE_S = 30.0
"""The load at a change is what came in so many seconds before it."""
THE_SAME_LOAD = 0.1
"""A load that has changed by less than this share does not explain why a change is taken back."""


@dataclass(frozen=True)
class Run:
    """What a policy came to on a load; the levels that were asked for may be many."""

    policy: str
    late_share: float
    instance_seconds: float
    rescales_per_hour: float
    undone: int
    """Pairs of changes that undid each other within two minutes under the same load."""
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
    summary = result.summary
    return Run(
        policy,
        (summary.late_records_pct or 0.0) / 100,
        summary.instance_seconds,
        len(changes) * 3600 / load.seconds,
        undone_pairs(changes, load),
        summary.latency_p95_s,
    )


def undone_pairs(changes: Sequence[tuple[float, int]], load: Load) -> int:
    """Pairs of changes of which the second takes back the first at once, though the load is what it was."""

    def rate_per_s(until_s: float) -> float:
        last = max(1, round(until_s / STEP_S))
        return float(load.rates_per_s[max(0, last - round(LOAD_BEFORE_S / STEP_S)) : last].mean())

    return sum(
        after_s - before_s <= UNDONE_WITHIN_S
        and before * after < 0
        and abs(rate_per_s(after_s) - rate_per_s(before_s)) <= THE_SAME_LOAD * rate_per_s(before_s)
        for (before_s, before), (after_s, after) in pairwise(changes)
    )


def first_size(load: Load) -> int:
    """As many as the first minute needs: no policy is to be judged by how it was started."""
    rate = float(load.rates_per_s[: round(60 / STEP_S)].mean())
    return max(BOUNDS[0], math.ceil(rate / SERVICE_RATE_PER_S * 1.2))


def clairvoyant_seconds(load: Load, bound_s: float, startup_s: float) -> float:
    """Instance-seconds of somebody who knew the load."""
    sizes = clairvoyant_sizes(load, job=JOB, bound_s=bound_s, startup_s=startup_s, bounds=BOUNDS)
    return float(sizes.sum() * STEP_S)
