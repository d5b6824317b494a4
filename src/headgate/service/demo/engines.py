"""The simulated jobs of the demonstration: ``python -m headgate.service.demo.engines PLAN``.

Each operator has an agent, which reports to the service and is told its size, over HTTP like any other.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from headgate.agent.agent import Agent
from headgate.agent.http import HttpController
from headgate.agent.running import RunningAgent
from headgate.local.supervisor import stop_event
from headgate.service.demo.operator_engine import OperatorEngine, PacedEngine
from headgate.service.demo.plan import SimulatedJob, demo_jobs


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
