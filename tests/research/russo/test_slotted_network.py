"""The slotted network: what a slot comes to, and that whole policies decide on it as bare planners do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from headgate.core.objective import LatencySlo, Objective
from headgate.core.step import step
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.planning.agents import CANDIDATES, AgentsPlanner
from headgate.policies.planning.central import CentralPlanner, ExactPlanner
from headgate.policies.planning.model import (
    ApplicationModel,
    Levels,
    Planner,
    RateGrid,
    Sizes,
    SlotOutcome,
    Transitions,
)
from headgate.policies.planning.path import PathPlanner
from headgate.research.russo.slotted_network import SlottedNetwork, levels_like
from headgate.simulation.contract import Warmed
from headgate.simulation.engine import SimulatedEngine
from tests.policies.planning.pipelines import RUSSO, pipeline

GRID = RateGrid.up_to(13.5, 20 / 60)
SLOTS = 400
LEVELS = (
    (16 + 9 * np.sin(np.arange(SLOTS + 1) / 40) + np.random.default_rng(6).normal(0, 1, SLOTS + 1)).round().astype(int)
).tolist()
AGENT_GRIDS = tuple(RateGrid.up_to(5 * speed, 20 / 60) for speed in RUSSO.service_rates_per_s)


class Scripted:
    """A planner with given choices."""

    inputs = 1

    def __init__(self, *sizes: Sizes) -> None:
        self._sizes = iter(sizes)

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        return next(self._sizes)

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        return None

    def visits(self, levels: Levels) -> int:
        return 0

    def to_json(self) -> dict[str, object]:
        return {}

    def load(self, state: Mapping[str, object]) -> None:
        return None


class SlottedKernel:
    """The slotted network as a kernel for the simulated engine, so that whole policies run on it.

    Sizes count for a slot as they are when it ends. There is no reading of a backlog, for nothing is carried over. A
    record at a saturated operator counts as taking its service time and the whole slot.
    """

    def __init__(
        self, application: ApplicationModel, rates_per_s: Sequence[float], *, slot_s: float = 60.0, ready: int = 1
    ) -> None:
        self._application = application
        self._rates_per_s = rates_per_s
        self._slot_s = slot_s
        self._ready = dict.fromkeys(application.operators, ready)
        self._now_s = 0.0
        self._slots = 0
        self._samples: dict[str, Sample] = {}

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._application.topology

    def ready(self, operator: str) -> int:
        return self._ready[operator]

    def advance(self, to_s: Instant) -> None:
        while (end_s := (self._slots + 1) * self._slot_s) <= to_s:
            if self._slots < len(self._rates_per_s):
                rate = self._rates_per_s[self._slots]
                self._samples = {name: self._sample(name, end_s, rate) for name in self._application.operators}
            self._slots += 1
        self._now_s = to_s

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        leaving, self._ready[operator] = self._ready[operator] - ready, ready
        return [self._now_s] * leaving

    def warmed(self, operator: str) -> Sequence[Warmed]:
        return ()

    def samples(self) -> Mapping[str, Sample]:
        return self._samples

    def _sample(self, name: str, at_s: Instant, rate_per_s: float) -> Sample:
        index = self._application.operators.index(name)
        service = self._application.service_rates_per_s[index]
        rate, ready = self._application.shares[index] * rate_per_s, self._ready[name]
        rho = rate / (ready * service)
        waiting_s = rho / (2 * service * (1 - rho)) if rho < 1 else self._slot_s
        return Sample(
            name,
            at_s,
            input_rate_per_s=rate,
            processed_rate_per_s=ready * service,
            latency_s=1 / service + waiting_s,
            processing_time_s=1 / service,
            scheduling_delay_s=waiting_s,
            utilization=min(1.0, rho),
        )


def test_a_run_counts_instances_changes_and_violations_at_the_rate_that_arrives() -> None:
    # One instance serves 2/s and takes 1.5 s at 1.6/s; the levels are 0, 0.8, 1.6 and 2.4 per second.
    network = SlottedNetwork(pipeline(2.0, bound_s=1.4, largest=4), RateGrid(0.8, 4))
    tally = network.run(Scripted((1,), (1,), (2,), (2,)), [0, 1, 2, 3, 3], (1,))
    # Slot 2 sees 1.6/s on one instance; two instances keep 2.4/s within 0.5 + 0.6 / 1.6 s.
    assert (tally.violations, tally.reconfigurations, tally.instances) == (1, 1, 6)
    assert tally.cost == pytest.approx(0.2 * 6 / 4 + 0.4 + 0.4)
    assert tally.average_instances == 1.5


def test_levels_follow_each_other_by_the_given_probabilities() -> None:
    matrix = np.array([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25], [0.0, 1.0, 0.0]])
    levels = levels_like(matrix, 0, 100_000, seed=3)
    assert len(levels) == 100_001
    assert levels[:2] == [0, 1]
    assert np.abs(Transitions(3, levels).matrix - matrix).max() < 0.01
    assert levels == levels_like(matrix, 0, 100_000, seed=3)


def test_a_kernel_reads_as_an_m_d_1_queue_does() -> None:
    kernel = SlottedKernel(pipeline(2.0), [1.6, 2.4], ready=1)
    kernel.advance(59.0)
    assert kernel.samples() == {}
    kernel.advance(60.0)
    sample = kernel.samples()["o0"]
    assert (sample.at_s, sample.input_rate_per_s, sample.utilization) == (60.0, 1.6, 0.8)
    assert sample.latency_s == pytest.approx(1.5)
    kernel.advance(120.0)
    sample = kernel.samples()["o0"]
    assert sample.utilization == 1.0
    assert sample.latency_s == pytest.approx(60.5), "a saturated operator has the latency of a whole slot"


@pytest.mark.parametrize(
    ("name", "settings", "planner"),
    [
        ("rl-centralized", {}, CentralPlanner(RUSSO, GRID)),
        ("rl-centralized", {"response_time": "learned"}, CentralPlanner(RUSSO, GRID, known=False)),
        (
            "rl-decentralized",
            {},
            AgentsPlanner(RUSSO, AGENT_GRIDS, targets=[0.7]),
        ),
        (
            "rl-decentralized",
            {"coordination": "together"},
            AgentsPlanner(RUSSO, AGENT_GRIDS, targets=CANDIDATES, together=True),
        ),
        ("mdp-path", {"sweeps_per_slot": 1}, PathPlanner(RUSSO, GRID)),
        ("mdp-path", {"response_time": "learned"}, PathPlanner(RUSSO, GRID, known=False, sweeps=20)),
        ("mdp", {"replan_every_s": "1h"}, ExactPlanner(RUSSO, GRID, replan_every=60)),
    ],
)
def test_a_policy_decides_on_the_simulated_engine_as_its_planner_does(
    name: str, settings: dict[str, object], planner: Planner
) -> None:
    rates = [level * GRID.quantum_per_s for level in LEVELS]
    objective = Objective(LatencySlo(1.95), 1, 5)
    speeds = dict(zip(RUSSO.operators, RUSSO.service_rates_per_s, strict=True))
    given = {"service_rate_per_s": speeds, "rate_quantum_per_s": 20 / 60, "trusted_visits": 0, **settings}
    engine = SimulatedEngine(SlottedKernel(RUSSO, rates, ready=3))
    policy, resumed_at = make_policy(name, Context(objective, RUSSO.topology), given), SLOTS // 2
    history = History(RUSSO.topology)
    decided, expected = [], []
    sizes: Sizes = (3, 3, 3)
    network = SlottedNetwork(RUSSO, GRID)
    for slot in range(SLOTS):
        engine.advance(60.0 * (slot + 1))
        history.observe(engine.observe())
        if slot == resumed_at:
            state = policy.snapshot()
            policy = make_policy(name, Context(objective, RUSSO.topology), given)
            policy.restore(state)
        decision = step(policy, (), engine.now(), history)
        engine.apply(decision)
        history.record(decision)
        decided.append(tuple(decision.targets.values()))
        before, after = (LEVELS[slot],) * planner.inputs, (LEVELS[slot + 1],) * planner.inputs
        sizes = planner.choose(before, sizes)
        planner.learn(before, sizes, after, network.outcome(sizes, LEVELS[slot + 1]))
        expected.append(sizes)
    assert decided == expected
    assert len(set(decided)) > 3, "a run in which nothing happens is no test"
