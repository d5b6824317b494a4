"""What it costs a service to take over the jobs of another that is gone: CPU time for each job, over PostgreSQL.

The jobs have some history, of one service or of many that followed each other. Who takes over has followed them,
or has just been started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.common import reference_s, report

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Sample
from headgate.engines.agents import Report
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.testing.clock import FakeClock
from tests.postgres import PostgresServer

INTERVAL_S = 10.0
STEPS = 360
"""An hour: what a loop looks back on."""


@dataclass(frozen=True)
class Case:
    policy: str
    jobs: int = 8
    leaders: int = 1
    """How many services have led."""
    steps: int = STEPS


CASES = (Case("reactive"), Case("reactive", leaders=60), Case("autopilot"), Case("reactive", jobs=1000, steps=24))
"""A thousand jobs have four minutes of history: to make an hour of it would take most of an hour."""


def bench_take_over() -> None:
    with PostgresServer() as postgres:
        report("take-over", [taken_over(postgres.new_database(), case) for case in CASES])


def taken_over(url: str, case: Case) -> dict[str, str | float | int]:
    clock = FakeClock(1_700_000_000.0)
    objective = parse_objective("latency p95 < 10s")
    work = (OperatorSpec("work", 1, 8),)
    jobs = tuple(
        JobSpec(f"job-{number}", work, objective, policy=case.policy, interval_s=INTERVAL_S)
        for number in range(case.jobs)
    )
    config = ServiceConfig(jobs, url)
    steps = case.steps // case.leaders
    for leader in range(case.leaders):
        with service_of(config, clock) as service:
            lead(service)
            for step in range(steps):
                stepped(service, clock, leader * steps + step)
            service.step_down()  # Without a word, as one that was killed.
    with service_of(config, clock) as service:
        cold_ms = lead(service)
        service.step_down()
    with service_of(config, clock) as service:
        began_s = time.process_time()
        while not service.is_warm:
            service.stand_by()
        ahead_ms = 1000 * (time.process_time() - began_s) / case.jobs
        warm_ms = lead(service)
        service.step_down()
    return {
        "policy": case.policy,
        "jobs": case.jobs,
        "history_min": case.steps * INTERVAL_S / 60,
        "leaders_before": case.leaders,
        "just_started_cpu_ms_per_job": cold_ms,
        "stood_by_cpu_ms_per_job": warm_ms,
        "read_ahead_cpu_ms_per_job": ahead_ms,
        "times_reference_loop": warm_ms / 1000 / reference_s(),
    }


@contextmanager
def service_of(config: ServiceConfig, clock: FakeClock) -> Iterator[Service]:
    with Service(config, open_store(config.store, now=clock.now), clock, leads=False) as service:
        yield service


def lead(service: Service) -> float:
    """Make this service the leader and return the milliseconds of CPU time that took per job."""
    term = service.store.lease("benchmark", "", 0.0).acquire()  # It ends at once: the next who asks gets it.
    assert term is not None
    began_s = time.process_time()
    service.lead(term.token, lambda: True)
    return 1000 * (time.process_time() - began_s) / len(service.config.jobs)


def stepped(service: Service, clock: FakeClock, count: int) -> None:
    clock.advance(INTERVAL_S)
    arrived = 1000.0 * count
    sample = Sample(
        "work", clock.now(), arrived=arrived, done=arrived, late=0.0, backlog=0.0, latency_s=1.0, utilization=0.6
    )
    for job in service.fleet:
        job.report("work", Report("agent", Instances(2, 2, 2), sample))
        job.tick()


if __name__ == "__main__":
    bench_take_over()
