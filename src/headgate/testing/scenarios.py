"""Small closed loops that drive a policy through load that rises and falls, without any engine.

Each operator is a fluid queue: what arrives and is not processed waits, each ready instance processes
``service_rate_per_s``, and requested instances join after ``startup_s``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Instant, Observation, Sample
from headgate.core.window import History

Load = Callable[[Instant], float]
"""Records offered per second at a time."""


def hill(base_per_s: float, peak_per_s: float, period_s: float) -> Load:
    """Load that starts at its base, rises smoothly to its peak and comes back once per period."""
    return lambda at_s: base_per_s + (peak_per_s - base_per_s) * (1 - math.cos(2 * math.pi * at_s / period_s)) / 2


def steps(*levels: tuple[Instant, float]) -> Load:
    """Load that jumps: each level holds from its time on."""
    return lambda at_s: next((rate for from_s, rate in reversed(levels) if at_s >= from_s), 0.0)


@dataclass(frozen=True, slots=True)
class LoadScenario:
    """A load on every operator, the service rate of an instance, and the length of the run."""

    name: str
    loads: Mapping[str, Load]
    service_rate_per_s: float = 10.0
    trigger_interval_s: float | None = None
    """With an interval, the readings are those of a micro-batch job."""
    startup_s: float = 20.0
    interval_s: float = 10.0
    """Time between two readings, and between two decisions."""
    duration_s: float = 2400.0
    start_instances: int = 2
    objective: Objective = field(default_factory=lambda: Objective(LatencySlo(5.0), 1, 8))

    @property
    def topology(self) -> Topology:
        names = tuple(self.loads)
        return Topology(names, tuple(pairwise(names)))

    def times(self) -> Iterator[Instant]:
        return (index * self.interval_s for index in range(1, int(self.duration_s / self.interval_s) + 1))


SCENARIOS: tuple[LoadScenario, ...] = (
    LoadScenario("queue", {"job": hill(5, 55, 1200)}),
    LoadScenario(
        "micro-batch",
        {"job": steps((0, 15), (600, 60), (1200, 4))},
        trigger_interval_s=10.0,
        objective=Objective(LatencySlo(10.0), 1, 8),
    ),
    LoadScenario("two-operators", {"parse": hill(10, 40, 1200), "enrich": steps((0, 50), (1200, 5))}),
)


class FluidQueue:
    """One operator of a scenario."""

    def __init__(self, operator: str, scenario: LoadScenario) -> None:
        self.scenario = scenario
        self._operator = operator
        self._backlog = 0.0
        self._planned = self._ready = scenario.start_instances
        self._arrives_s = -math.inf

    def resize(self, now: Instant, instances: int) -> None:
        if instances != self._planned:
            self._planned = instances
            self._arrives_s = now + self.scenario.startup_s if instances > self._ready else now

    def advance(self, now: Instant) -> tuple[Sample, Instances]:
        """Process one interval that ends now, and read what it was like."""
        scenario = self.scenario
        interval_s = scenario.interval_s
        changing = self._ready != self._planned
        if now - interval_s >= self._arrives_s:
            self._ready = self._planned
        rate_per_s = scenario.loads[self._operator](now - interval_s)
        busy_rate_per_s = self._ready * scenario.service_rate_per_s
        waited_s = self._backlog / busy_rate_per_s
        offered = self._backlog + rate_per_s * interval_s
        self._backlog = max(0.0, offered - busy_rate_per_s * interval_s)
        processing_time_s = rate_per_s * interval_s / busy_rate_per_s
        batched = scenario.trigger_interval_s is not None
        sample = Sample(
            self._operator,
            now,
            input_rate_per_s=rate_per_s,
            processed_rate_per_s=busy_rate_per_s,
            backlog=self._backlog,
            latency_s=(waited_s + processing_time_s) if batched else self._backlog / busy_rate_per_s + 0.1,
            processing_time_s=processing_time_s if batched else None,
            scheduling_delay_s=waited_s if batched else None,
            trigger_interval_s=scenario.trigger_interval_s,
            utilization=min(1.0, offered / (busy_rate_per_s * interval_s)),
            warming=changing,
        )
        return sample, Instances(self._planned, self._planned, self._ready)


class ScenarioRun:
    """A running scenario, which a test observes and resizes."""

    def __init__(self, scenario: LoadScenario, alter: Callable[[Sample], Sample] | None = None) -> None:
        """``alter`` may corrupt each reading."""
        self.scenario = scenario
        self.history = History(scenario.topology)
        self._alter = alter or (lambda sample: sample)
        self._queues = {name: FluidQueue(name, scenario) for name in scenario.topology.operators}

    def observe(self, now: Instant) -> Observation:
        samples, instances = {}, {}
        for name, queue in self._queues.items():
            sample, instances[name] = queue.advance(now)
            samples[name] = self._alter(sample)
        observation = Observation(now, samples, instances)
        self.history.observe(observation)
        return observation

    def change(self, scenario: LoadScenario) -> None:
        """Continue with another scenario of the same operators: another load or service rate."""
        self.scenario = scenario
        for queue in self._queues.values():
            queue.scenario = scenario

    def resize(self, now: Instant, targets: Mapping[str, int]) -> None:
        for name, target in targets.items():
            self._queues[name].resize(now, target)
