"""The jobs of the demonstration: three whose load rises and falls within minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.service.config.model import JobSpec, OperatorSpec, ServiceConfig
from headgate.simulation.batch_network import BatchNetwork
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

STORE = "sqlite://"
INTERVAL_S = 2.0
REPORT_EVERY_S = 1.0
LATE_AFTER_S = 10.0
STARTUP_S = 5.0
NOTICE = (
    "A demonstration: these jobs are simulated, in a process of their own, so that it runs without Spark. They join by "
    "the same contract as any other engine; the service, its policies and this page are what they are in production."
)
RULES = """\
rules:
  - name: queue too long
    scale_out: count
    by: 2
    never_above: 8
    when: {metric: backlog, above: 160, for_at_least: 4s}
    with_no_scale_out_since: 8s
  - name: calm
    scale_in: count
    by: 1
    when: {metric: utilization, below: 45 %, for_at_least: 12s}
    with_no_scale_in_since: 8s
    with_no_scale_out_since: 20s
"""


@dataclass(frozen=True)
class SimulatedJob:
    """A job of the demonstration, and how it is simulated."""

    spec: JobSpec
    load: str
    rates_per_s: Mapping[str, float]
    """Records per second that one instance of each operator processes."""
    trigger_interval_s: float = 1.0
    seed: int = field(default=0)

    def engine(self) -> SimulatedEngine:
        """The job at its start, with one instance of each operator."""
        model = MicroBatch(trigger_interval_s=self.trigger_interval_s, overhead_s=0.15, noise=0.08)
        network = BatchNetwork(
            parse_workload(self.load),
            self.rates_per_s,
            Topology(self.spec.topology.operators, self.spec.streams),
            model,
            seed=self.seed,
            late_after_s=LATE_AFTER_S,
        )
        return SimulatedEngine(network, startup_s=STARTUP_S, startup_spread=0.2, drain_s=1.0, seed=self.seed)


def demo_jobs() -> tuple[SimulatedJob, ...]:
    """Return the jobs, in the order in which they are shown."""
    objective = parse_objective("latency p95 < 10s")
    quick: Mapping[str, object] = {"scale_in_window_s": 12.0}
    return (
        SimulatedJob(
            JobSpec(
                "orders",
                (
                    OperatorSpec("parse", 1, 8, price=0.2),
                    OperatorSpec("enrich", 1, 12, price=0.2),
                    OperatorSpec("total", 1, 4, price=0.2),
                    OperatorSpec("alert", 1, 4, price=0.2),
                ),
                objective,
                (("parse", "enrich"), ("enrich", "total"), ("enrich", "alert")),
                settings=quick,
                interval_s=INTERVAL_S,
                report_every_s=REPORT_EVERY_S,
                shadows=("hpa", "ds2"),
            ),
            "sine:mean=60,amplitude=48,period=600s | noise 5% every 3s",
            {"parse": 30.0, "enrich": 14.0, "total": 60.0, "alert": 90.0},
        ),
        SimulatedJob(
            JobSpec(
                "clicks",
                (OperatorSpec("count", 1, 8, price=0.2),),
                objective,
                policy="rules",
                settings={"rules": RULES},
                interval_s=INTERVAL_S,
                report_every_s=REPORT_EVERY_S,
                shadows=("autopilot",),
            ),
            "sine:mean=90,amplitude=70,period=180s | noise 5% every 3s",
            {"count": 30.0},
            seed=1,
        ),
        SimulatedJob(
            JobSpec(
                "sensors",
                (OperatorSpec("smooth", 1, 6, price=0.1),),
                objective,
                settings=quick,
                interval_s=INTERVAL_S,
                report_every_s=REPORT_EVERY_S,
            ),
            "periodic:base=25,peak=80,high=80s,low=100s | noise 5% every 3s",
            {"smooth": 20.0},
            seed=2,
        ),
    )


def demo_config() -> ServiceConfig:
    """A service for these jobs, with everything in memory."""
    return ServiceConfig(tuple(job.spec for job in demo_jobs()), store=STORE)
