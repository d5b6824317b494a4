"""A chain of micro-batch jobs under a policy, scored from end to end on what truly happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.objective import LatencySlo, Objective
from headgate.core.topology import Topology
from headgate.policies.frame.base import AnyPolicy, Context, make_policy
from headgate.runtime.assembly import wire
from headgate.simulation.batch_network import BatchNetwork
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

CHAIN = Topology.of(("parse", "enrich"), ("enrich", "sum"))
RATES = {"parse": 150.0, "enrich": 8.0, "sum": 100.0}
"""Records per second that one instance of each gets through: one of them is dear."""
LOAD = "sine:mean=60,amplitude=30,period=1h"
BOUND_S = 18.0
INTERVAL_S = 5.0


@dataclass(frozen=True)
class ChainResult:
    """What came of a run."""

    late_share: float
    instances: Mapping[str, float]
    """Paid for, on average over the time."""
    policy: AnyPolicy

    @property
    def cost(self) -> float:
        return sum(self.instances.values())


def run_chain(*, equally: bool, hours: float = 1.0, load: str = LOAD) -> ChainResult:
    """autopilot with one objective for all, or with the bound divided equally among three that know nothing of it."""
    own = dict.fromkeys(CHAIN.operators, BOUND_S / 3) if equally else {}
    slos = {name: LatencySlo(part_s, 95.0) for name, part_s in own.items()}
    objective = Objective(LatencySlo(BOUND_S, 95.0), operators=slos).within(1, 20)
    network = BatchNetwork(
        parse_workload(load),
        RATES,
        CHAIN,
        MicroBatch(trigger_interval_s=2.0, overhead_s=1.5, noise=0.1),
        late_after_s=BOUND_S,
        own_late_after_s=own,
    )
    engine = SimulatedEngine(network, startup_s=20.0)
    policy = make_policy("autopilot", Context(objective, CHAIN))
    loop = wire(engine, policy, engine, engine_name="simulated", resumes=False)
    ticks = round(hours * 3600 / INTERVAL_S)
    for tick in range(ticks):
        engine.advance(tick * INTERVAL_S)
        loop.tick()
    engine.advance(ticks * INTERVAL_S)
    sizes = {name: engine.sizes(name) for name in CHAIN.operators}
    paid = {
        name: float(((rows[:, 1] - rows[:, 0]) * rows[:, 3]).sum()) / (ticks * INTERVAL_S)
        for name, rows in sizes.items()
    }
    return ChainResult(network.late("sum") / network.done("sum"), paid, policy)
