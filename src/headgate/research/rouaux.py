"""The six experiments of rouaux §5.2: operators as plain queues, the document's rates, rules and sampling period.

All guards are around the rules, as they are live. Records are a fluid, so what comes out is queueing arithmetic: λ 10
against μ 5 gives a queue of 300 at 60 s and not a record more or less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Observation
from headgate.policies.frame.base import Context
from headgate.render.plots import Plot, line_plot
from headgate.rules import RulePolicy, Rules, policy, rule
from headgate.rules.fluent import FinishedRule
from headgate.runtime.assembly import wire
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads.contract import Workload
from headgate.workloads.shapes import Constant, Periodic
from headgate.workloads.steps import Steps

SAMPLING_S = 5.0
"""The document's own sampling period."""
OPERATOR = "SimpleStatelessOperator"
OBJECTIVE = parse_objective("latency p95 < 10s")
"""Rules do not look at it."""


@dataclass
class Played:
    """What a run saw and decided, cycle by cycle."""

    observations: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        assert observation is not None
        assert decision is not None
        self.observations.append(observation)
        self.decisions.append(decision)

    def changes(self, operator: str = OPERATOR) -> list[tuple[float, int, int]]:
        """When the size went from what to what."""
        verdicts = [(decision.at_s, decision.verdicts[operator]) for decision in self.decisions]
        return [(at_s, verdict.current, verdict.target) for at_s, verdict in verdicts if verdict.change]

    def backlog(self, at_s: float, operator: str = OPERATOR) -> float:
        """The queue at the time of a reading."""
        return dict(self.queue(operator))[at_s]

    def queue(self, operator: str = OPERATOR) -> list[tuple[float, float]]:
        """Each reading's time and the records that waited then."""
        backlogs = [(one.at_s, one.samples[operator].backlog) for one in self.observations]
        return [(at_s, backlog) for at_s, backlog in backlogs if backlog is not None]

    def codes(self, operator: str = OPERATOR) -> set[str]:
        return {decision.verdicts[operator].code for decision in self.decisions}

    def plots(self, threshold: float) -> list[Plot]:
        """Queue and sizes, as the document's figures show them."""
        operators = self.observations[0].instances
        queues = {name: [(at_s / 60, backlog) for at_s, backlog in self.queue(name)] for name in operators}
        sizes: dict[str, Sequence[tuple[float, float | None]]] = {
            name: [(one.at_s / 60, one.instances[name].ready) for one in self.observations] for name in operators
        }
        return [
            line_plot("Input queue", "records", queues, bound=threshold),
            line_plot("Size", "instances", sizes),
        ]


@dataclass(frozen=True)
class Experiment:
    """Rules on a query whose operators follow each other."""

    rules: RulePolicy
    threshold: float
    """The queue above which they scale out."""
    workload: Workload
    service_rate_per_s: float | Mapping[str, float]
    seconds: float
    operators: tuple[str, ...] = (OPERATOR,)

    def play(self, sampling_s: float = SAMPLING_S) -> Played:
        query = Topology(self.operators, tuple(pairwise(self.operators)))
        engine = SimulatedEngine(QueueNetwork(self.workload, self.service_rate_per_s, topology=query))
        made = Rules(self.rules).make(Context(OBJECTIVE, query))
        loop = wire(engine, made, engine, engine_name=engine.name)
        played = Played()
        loop.watchers.append(played)
        for cycle in range(int(self.seconds / sampling_s) + 1):
            engine.advance(cycle * sampling_s)
            loop.tick()
        return played


def _long_queue(by: int, never_above: int, operator: str = OPERATOR) -> FinishedRule:
    return (
        rule("Queue length is above 300 for 30 seconds")
        .scale_out(operator)
        .by(by)
        .never_above(never_above)
        .when("backlog")
        .above("300 tuples")
        .for_at_least(seconds=30)
        .with_no_scale_out_since(minutes=5)
    )


def _peaks(*lengths_s: tuple[float, float]) -> Steps:
    """Pairs of how long the base rate and then the peak lasts; the base follows until the last time."""
    times_s, rates = [0.0], []
    for base_s, peak_s in lengths_s:
        for rate, duration_s in ((10.0, base_s), (20.0, peak_s)):
            if duration_s:
                times_s.append(times_s[-1] + duration_s)
                rates.append(rate)
    return Steps(times_s, rates, "peaks of 20/s on a base of 10/s")


_FULL_QUEUE = (
    rule("Queue length is above 100 for 5 seconds")
    .scale_out(OPERATOR)
    .by(2)
    .never_above(3)
    .when("backlog")
    .above("100 tuples")
    .for_at_least(seconds=5)
)
_EMPTY_QUEUE = (
    rule("Queue length is below 1 for 5 seconds")
    .scale_in(OPERATOR)
    .by(2)
    .never_below(1)
    .when("backlog")
    .below("1 tuple")
    .for_at_least(seconds=5)
)
_VERY_LONG_QUEUE = (
    rule("Queue length is above 10000 for 60 seconds")
    .scale_out(OPERATOR)
    .by(2)
    .never_above(3)
    .when("backlog")
    .above("10000 tuples")
    .for_at_least(seconds=60)
)

FIRST, SECOND = f"{OPERATOR} (1)", f"{OPERATOR} (2)"
PEAK_EVERY_S, FIRST_PEAK_S = 60.0, 40.0
_PEAKS = Periodic(base=10.0, peak=20.0, high_s=20.0, low_s=40.0)

SCALE_OUT = Experiment(policy(_long_queue(1, 2)), 300, Constant(10.0), 5.0, seconds=600.0)
MORE_CAPACITY = Experiment(policy(_long_queue(2, 3)), 300, Constant(10.0), 5.0, seconds=600.0)
BOTTLENECK = Experiment(
    policy(_long_queue(2, 3, FIRST), _long_queue(2, 3, SECOND)),
    300,
    Constant(10.0),
    {FIRST: 20.0, SECOND: 5.0},
    seconds=600.0,
    operators=(FIRST, SECOND),
)
# The document draws the lengths of its peaks and prints none but the first.
SHORT_PEAKS = Experiment(
    policy(_VERY_LONG_QUEUE),
    10_000,
    _peaks((30, 5), (40, 15), (35, 25), (55, 10), (45, 20), (60, 5), (155, 0)),
    10.0,
    seconds=500.0,
)
LONG_PEAKS = Experiment(policy(_FULL_QUEUE, _EMPTY_QUEUE), 100, _PEAKS, 10.0, seconds=380.0)
RELUCTANT = Experiment(
    policy(_FULL_QUEUE, _EMPTY_QUEUE.with_no_scale_out_since(minutes=5)), 100, _PEAKS, 10.0, seconds=720.0
)
