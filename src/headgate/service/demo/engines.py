"""The simulated jobs of the demonstration: ``python -m headgate.service.demo.engines PLAN``.

Each operator has an agent, which reports to the service and receives its size, over HTTP like any other.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from headgate.agent.agent import Agent, HttpController
from headgate.agent.join import RunningAgent
from headgate.core.topology import Topology
from headgate.core.types import NO_STARTUPS, Batch, Decision, Instant, Observation, Receipt, Startup
from headgate.local.supervisor import stop_event
from headgate.service.demo.plan import SimulatedJob, demo_jobs
from headgate.simulation.engine import SimulatedEngine

LOOK_EVERY_S = 0.4
"""All operators are observed together, at most this often, because rates are measured between two readings."""


class PacedEngine:
    """A simulated engine whose job runs on as time goes by; its operators are observed from several threads."""

    def __init__(self, engine: SimulatedEngine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._began_s = clock() - engine.now()
        self._lock = threading.Lock()
        self._seen: Observation | None = None
        operators = engine.topology().operators
        self._batches: dict[str, list[Batch]] = {name: [] for name in operators}
        self._startups: dict[str, list[Startup]] = {name: [] for name in operators}

    def now(self) -> Instant:
        """The time of the simulated job."""
        return self._clock() - self._began_s

    def observe(self, operator: str) -> Observation:
        """Return everything that has happened to one operator since it was last observed."""
        with self._lock:
            if self._seen is None or self.now() - self._seen.at_s >= LOOK_EVERY_S:
                self._look()
            seen = self._seen
            assert seen is not None
            batches, self._batches[operator] = self._batches[operator], []
            startups, self._startups[operator] = self._startups[operator], []
            sample = seen.samples.get(operator)
            return Observation(
                seen.at_s,
                {} if sample is None else {operator: replace(sample, batches=tuple(batches))},
                {operator: seen.instances[operator]},
                {operator: tuple(startups)} if startups else NO_STARTUPS,
            )

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._engine.advance(max(self._engine.now(), self.now()))
            return self._engine.apply(decision)

    def _look(self) -> None:
        self._engine.advance(max(self._engine.now(), self.now()))
        self._seen = self._engine.observe()
        for name, sample in self._seen.samples.items():
            self._batches[name].extend(sample.batches)
        for name, found in self._seen.startups.items():
            self._startups[name].extend(found)


class OperatorEngine:
    """One operator of a simulated job, as its agent observes it."""

    def __init__(self, paced: PacedEngine, operator: str) -> None:
        self._paced = paced
        self._operator = operator

    def topology(self) -> Topology:
        return Topology.single(self._operator)

    def observe(self) -> Observation:
        return self._paced.observe(self._operator)

    def apply(self, decision: Decision) -> Receipt:
        return self._paced.apply(decision)

    def close(self) -> None:
        """The other operators go on."""


@dataclass(frozen=True)
class EnginesPlan:
    url: str
    token: str


def run(plan: EnginesPlan, stop: threading.Event) -> None:
    """Run all jobs until ``stop`` is set."""
    with ExitStack() as ended:
        for job in demo_jobs():
            for agent in joined(job, plan):
                ended.callback(agent.stop)
        stop.wait()


def joined(job: SimulatedJob, plan: EnginesPlan) -> list[RunningAgent[Agent]]:
    """The agents of a job's operators, each on a thread of its own."""
    paced = PacedEngine(job.engine())
    agents = []
    for operator in job.spec.topology.operators:
        engine = OperatorEngine(paced, operator)
        controller = HttpController(plan.url, plan.token, job=job.spec.name, now=paced.now)
        agents.append(RunningAgent(Agent(engine, operator, controller), engine).start())
    return agents


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    run(EnginesPlan(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), stop_event())
    return 0


if __name__ == "__main__":
    sys.exit(main())
