"""The controller of a pipeline, in a process of its own: ``python -m headgate.pipelines.controller PLAN``.

It answers the agents, runs the loop over all jobs and keeps the one journal. It ends when it is told to (SIGTERM), and
with its parent. While it is away every job keeps its size; started again it goes on from the journal, at the same
address, and the agents join again.

What the jobs do while they warm up is looked at, and neither decided on nor learned from: first batches are slow.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Decision, Observation
from headgate.engines.agents import AgentsEngine
from headgate.journal.codec import decision_to_dict, observation_to_dict
from headgate.journal.contract import Journal
from headgate.journal.sqlite import SqliteJournal
from headgate.local.ending import ended_by_parent
from headgate.pipelines.meter import Meter, TopicMeter
from headgate.pipelines.metered import MeteredEngine
from headgate.pipelines.model import Pipeline
from headgate.pipelines.reading import read_pipeline
from headgate.runtime.autoscaler import Autoscaler
from headgate.runtime.clock import Clock, SystemClock
from headgate.runtime.loop import ControlLoop
from headgate.runtime.wiring import wire
from headgate.service.api import make_api
from headgate.service.server import LoopbackServer

ENGINE = "agents"
REPORT_EVERY_S = 1.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class ControllerPlan:
    """What a controller needs to know."""

    file: str
    policy: str
    applications: tuple[str, ...]
    bootstrap: str
    journal: str
    port: int
    token: str
    counts_from_ms: int
    """Records that were due before this are not counted at the end."""
    begun: str
    """A file; as long as it is not there, jobs are warming up, and nothing is decided."""


class Newest:
    """What the loop saw and decided last, for those who ask; a watcher."""

    def __init__(self, engine: AgentsEngine, meter: Meter, now: Callable[[], float]) -> None:
        self._engine, self._meter, self._now = engine, meter, now
        self._observation: Observation | None = None
        self._decision: Decision | None = None
        self.ticks = 0

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        before = self._observation
        if observation is not None and before is not None:
            # A job without a new reading is told of as it was read last.
            observation = replace(observation, samples={**before.samples, **observation.samples})
        self._observation, self._decision = observation or before, decision or self._decision
        self.ticks += 1

    def told(self) -> JSON:
        seen, decided = self._observation, self._decision
        return {
            "ticks": self.ticks,
            "joined": sorted(self._engine.joined),
            "observation": None if seen is None else observation_to_dict(seen),
            "decision": None if decided is None else decision_to_dict(decided),
            "end_to_end": self._meter.told(self._now()).to_json(),
        }


def wire_pipeline(
    pipeline: Pipeline, engine: AgentsEngine, meter: Meter, clock: Clock, journal: Journal
) -> ControlLoop:
    """The one loop over all jobs of a pipeline."""
    # A job with a bound of its own counts by that what is late.
    ends = {job.name: job.writes for job in pipeline.ends if pipeline.own_bound_s(job.name) is None}
    metered = MeteredEngine(engine, meter, ends)
    loop = wire(metered, pipeline.make_policy(), clock, engine_name=ENGINE, job=pipeline.name, journal=journal)

    def journal_agents() -> None:
        for event in engine.take_events():
            loop.note(event.kind, event.detail, at_s=event.at_s)

    loop.chores.append(journal_agents)
    return loop


def run(plan: ControllerPlan, stop: threading.Event) -> None:
    """Control the pipeline until ``stop`` is set."""
    pipeline = read_pipeline(Path(plan.file), plan.applications).with_policy(plan.policy)
    clock = SystemClock()
    slo = pipeline.asked.slo
    meter = Meter(slo.bound_s if isinstance(slo, LatencySlo) else None, plan.counts_from_ms)
    engine = AgentsEngine(
        pipeline.topology,
        starts={job.name: job.min_executors for job in pipeline.jobs},
        now=clock.now,
        report_every_s=REPORT_EVERY_S,
    )
    newest = Newest(engine, meter, clock.now)
    journal = SqliteJournal(plan.journal)
    loop = wire_pipeline(pipeline, engine, meter, clock, journal)
    loop.watchers.append(newest)
    api = make_api(engine, plan.token, clock.now, newest.told)
    with TopicMeter(plan.bootstrap, pipeline.end_topics, meter), LoopbackServer(api, plan.port):
        while not Path(plan.begun).exists() and not stop.wait(LOOK_EVERY_S):
            newest(engine.observe(), None)
        with Autoscaler(loop, pipeline.interval_s, journal).start():
            stop.wait()


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    run(ControllerPlan(**{**data, "applications": tuple(data["applications"])}), ended_by_parent())
    return 0


if __name__ == "__main__":
    sys.exit(main())
