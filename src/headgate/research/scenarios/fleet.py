"""fleet: a thousand jobs, or fewer, on a cluster that is too small for their peaks together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from headgate.core.arbiter import Arbiter, Arbitration, Pace
from headgate.core.objective import LatencySlo, Objective
from headgate.core.quotas import Demand, Grant, OperatorKey, Quota, QuotaGroup
from headgate.core.types import JSON, Decision, Instant
from headgate.lab.scenario import Progress, ScenarioOutcome, part_of, scenario
from headgate.policies.frame.base import Context
from headgate.render.page import Plot, axes, line
from headgate.runtime.arbitration import Arbitrated
from headgate.runtime.assembly import wire
from headgate.runtime.loop import ControlLoop
from headgate.runtime.model_file import policy_with_files
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads.shapes import Gaussian

GROUPS = (("orders", 2, 0.2), ("reports", 1, 0.5), ("archive", 0, 0.3))
"""Name, priority and share of the jobs."""
LATE_AFTER_S = 30.0
OBJECTIVE = Objective(LatencySlo(LATE_AFTER_S, period_s=3600.0), min_instances=1, max_instances=20)
SERVICE_RATE_PER_S = 10.0
INTERVAL_S = 10.0
STARTUP_S = 30.0
SPAN_S = 10.0
"""The time over which jobs that change their size are counted."""


@dataclass(frozen=True)
class FleetPlan:
    """The number of jobs, their policy, and the length of a run."""

    jobs: int = 1000
    seconds: float = 3600.0
    policy: str = "reactive"
    seed: int = 0


class FirstCome:
    """No arbitration: each request gets what is free at its time."""

    def __init__(self, quota: int) -> None:
        self._quota = quota
        self._held: dict[OperatorKey, int] = {}
        self._total = 0

    def ask(self, now: Instant, demand: Demand) -> Grant:
        held = demand.in_use
        self._total += held - self._held.get(demand.key, 0)
        size = min(demand.wanted, held + max(0, self._quota - self._total))
        self._total += max(0, size - held)
        self._held[demand.key] = max(size, held)
        return Grant(size) if size == demand.wanted else Grant(size, "quota", f"{self._quota} are taken")


@dataclass
class FleetJob:
    name: str
    group: str
    engine: SimulatedEngine
    loop: ControlLoop

    @property
    def counted(self) -> tuple[float, float]:
        """Records that arrived, and those that were late."""
        sample = self.engine.observe().samples["job"]
        return float(sample.arrived or 0.0), float(sample.late or 0.0)


@dataclass(frozen=True)
class FleetRun:
    """The figures of a fleet."""

    late: dict[str, list[float]]
    """The share of late records of each job, by group."""
    most_instances: int
    instance_hours: float
    rescales: int
    most_rescales: int
    """The most that began within ``SPAN_S``."""
    cut: int
    """Decisions that were granted less than they wanted, or had to wait."""
    sizes: list[tuple[float, int]]
    """Paid instances over time."""


def groups_of(cluster: int) -> tuple[QuotaGroup, ...]:
    """Return the groups, none of which may take the whole cluster."""
    shares = {"orders": 0.5, "reports": 0.7, "archive": 0.4}
    return tuple(QuotaGroup(name, Quota(instances=round(shares[name] * cluster)), rank) for name, rank, _ in GROUPS)


def make_jobs(fleet: FleetPlan, arbitration: Arbitration | None) -> list[FleetJob]:
    """Return the jobs, which depend only on the seed."""
    random = np.random.default_rng(fleet.seed)
    shares = np.cumsum([share for _, _, share in GROUPS])
    jobs = []
    for number in range(fleet.jobs):
        group = GROUPS[int(np.searchsorted(shares, (number + 0.5) / fleet.jobs))][0]
        peak = float(np.clip(random.lognormal(4.0, 0.5), 15.0, 180.0))
        load = Gaussian(
            base=0.2 * peak,
            peak=peak,
            center_s=float(random.normal(0.5, 0.08)) * fleet.seconds,
            sigma_s=float(random.uniform(0.08, 0.15)) * fleet.seconds,
        )
        jobs.append(_job(f"{group}-{number:04}", group, load, fleet, arbitration))
    return jobs


def _job(name: str, group: str, load: Gaussian, fleet: FleetPlan, arbitration: Arbitration | None) -> FleetJob:
    start = max(1, round(load.base / SERVICE_RATE_PER_S) + 1)
    kernel = QueueNetwork(load, SERVICE_RATE_PER_S, ready=start, late_after_s=LATE_AFTER_S)
    engine = SimulatedEngine(kernel, startup_s=STARTUP_S, seed=fleet.seed)
    policy = policy_with_files(fleet.policy, Context(OBJECTIVE, engine.topology(), fleet.seed))
    loop = wire(engine, policy, engine, engine_name=engine.name, job=name)
    if arbitration is not None:
        loop.shared_guards.append(Arbitrated(arbitration, name, OBJECTIVE, group))
    return FleetJob(name, group, engine, loop)


def run_fleet(fleet: FleetPlan, arbitration: Arbitration | None, progress: Callable[[float], None]) -> FleetRun:
    """Run all jobs, whose decisions every ten seconds are spread over time as in a service."""
    jobs = make_jobs(fleet, arbitration)
    recent: deque[Instant] = deque()
    most_rescales = rescales = cut = 0
    sizes = []
    apart_s = INTERVAL_S / len(jobs)
    for cycle in count():
        if cycle * INTERVAL_S >= fleet.seconds:
            break
        for place, job in enumerate(jobs):
            now = cycle * INTERVAL_S + place * apart_s
            job.engine.advance(now)
            decision = job.loop.tick()
            if decision is None:
                continue
            cut += _is_cut(decision)
            if not decision.is_hold:
                recent.append(now)
                rescales += 1
                while now - recent[0] >= SPAN_S:
                    recent.popleft()
                most_rescales = max(most_rescales, len(recent))
        sizes.append((cycle * INTERVAL_S, sum(job.engine.observe().instances["job"].requested for job in jobs)))
        progress(cycle * INTERVAL_S / fleet.seconds)
    return FleetRun(
        _late(jobs, fleet.seconds),
        max(size for _, size in sizes),
        sum(size for _, size in sizes) * INTERVAL_S / 3600,
        rescales,
        most_rescales,
        cut,
        sizes,
    )


def _is_cut(decision: Decision) -> bool:
    note = decision.verdicts["job"].notes[-1]
    return note.guard == Arbitrated.name and note.before != note.after


def _late(jobs: Sequence[FleetJob], until_s: float) -> dict[str, list[float]]:
    late: dict[str, list[float]] = {name: [] for name, _, _ in GROUPS}
    for job in jobs:
        job.engine.advance(until_s)
        arrived, missed = job.counted
        late[job.group].append(missed / arrived if arrived else 0.0)
    return late


ALLOWED_SHARE = 0.05
CLUSTER_SHARE = 0.8
"""The cluster as a share of the peak demand of all jobs."""
SMALL = 150
PACED_SHARE = 0.1
"""The share of the jobs that may change their size within 10 s."""
NOTES = (
    "Simulated jobs of three groups, whose loads rise once and fall again within an hour, most in the middle of it; a "
    "decision of each every 10 s by reactive, 30 s until an instance is ready, objective latency p95 < "
    f"{LATE_AFTER_S:g} s. The cluster has {100 * CLUSTER_SHARE:.0f} % of the unlimited peak demand of all jobs; no "
    "group may take all of it.",
    "first come: each request gets what is free at its time. arbitrated: the need of loads before any reserve, by the "
    "priorities of the groups (orders before reports before archive); within a group the objective with the most "
    "budget left yields first. paced: at most a tenth of the jobs change their size in any 10 s.",
    "kept_pct is the share of jobs with at most 5 % of their records late, late_pct the mean share of late records, "
    "worst_pct that of the worst job; cut counts decisions that were granted less or had to wait for others; "
    "rescales_10s is the largest number of jobs that changed their size within 10 s.",
)


@scenario(
    "fleet",
    "1,000 jobs on 80 % of the cluster they want: first come, arbitrated, and paced (takes minutes).",
    takes_s=600.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    return run_variants(FleetPlan(), progress)


@scenario("fleet-small", "The same with 150 jobs, which takes a minute.")
def run_small(progress: Progress) -> ScenarioOutcome:
    return run_variants(FleetPlan(jobs=SMALL), progress)


def run_variants(fleet: FleetPlan, progress: Progress) -> ScenarioOutcome:
    free = run_fleet(fleet, None, part_of(progress, 0, 1 / 4))
    cluster = round(CLUSTER_SHARE * free.most_instances)
    pace = pace_of(fleet)
    limited: Sequence[tuple[str, Arbitration]] = (
        ("first come", FirstCome(cluster)),
        ("arbitrated", Arbiter(groups_of(cluster), Quota(instances=cluster))),
        ("arbitrated, paced", Arbiter(groups_of(cluster), Quota(instances=cluster), pace)),
    )
    runs = {"without limits": free}
    for number, (name, arbitration) in enumerate(limited, 1):
        runs[name] = run_fleet(fleet, arbitration, part_of(progress, number / 4, 1 / 4))
    progress(1.0)
    rows = [row for name, run in runs.items() for row in _rows(name, run)]
    return ScenarioOutcome(rows, NOTES, [_plot(runs, cluster)])


def pace_of(fleet: FleetPlan) -> Pace:
    return Pace(max(1, round(PACED_SHARE * fleet.jobs)), SPAN_S)


def _rows(name: str, run: FleetRun) -> list[dict[str, JSON]]:
    every = [share for shares in run.late.values() for share in shares]
    totals = {
        "most_instances": run.most_instances,
        "instance_hours": round(run.instance_hours),
        "rescales": run.rescales,
        "rescales_10s": run.most_rescales,
        "cut": run.cut,
    }
    rows: list[dict[str, JSON]] = [{"variant": name, "group": "all", **_shares(every), **totals}]
    return [*rows, *({"variant": name, "group": group, **_shares(run.late[group])} for group, _, _ in GROUPS)]


def _shares(late: Sequence[float]) -> dict[str, JSON]:
    return {
        "jobs": len(late),
        "kept_pct": round(100 * sum(share <= ALLOWED_SHARE for share in late) / len(late), 1),
        "late_pct": round(100 * sum(late) / len(late), 2),
        "worst_pct": round(100 * max(late), 1),
    }


def _plot(runs: dict[str, FleetRun], cluster: int) -> Plot:
    lines = [
        line(name, [at_s / 60 for at_s, _ in run.sizes], [size for _, size in run.sizes]) for name, run in runs.items()
    ]
    return Plot(
        f"Instances of all jobs; the cluster has {cluster}",
        lines,
        axes("minutes", "instances"),
        "Lines: instances requested by all jobs, by arbitration.",
    )
