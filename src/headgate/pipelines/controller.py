"""The controller of a pipeline, in a process of its own: ``python -m headgate.pipelines.controller PLAN``.

It answers the agents, runs the loop over all jobs and writes the journal. It ends on SIGTERM, and with its parent.
Without it every job keeps its size; after a restart it continues from the journal, at the same address, and the agents
join again.

While jobs warm up they are observed, but nothing is decided or learned: first batches are slow.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
from headgate.engines.agents import AgentsEngine
from headgate.journal.contract import Journal
from headgate.journal.writer import SqliteJournal
from headgate.local.supervisor import stop_event
from headgate.pipelines.document import read_pipeline
from headgate.pipelines.meter import Meter, MeteredEngine, TopicMeter
from headgate.pipelines.model import Pipeline
from headgate.runtime.loop import Clock, SystemClock
from headgate.service.api import make_api
from headgate.service.config.model import AccessRules, JobSpec, OperatorSpec, ServiceConfig
from headgate.service.jobs import ServedJob
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store.store import IN_MEMORY, open_store
from headgate.service.store.tokens import Scope

REPORT_EVERY_S = 1.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class ControllerPlan:
    """The arguments of a controller process."""

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


def pipeline_job(
    pipeline: Pipeline, meter: Meter, clock: Clock, journal: Journal, engine: AgentsEngine | None = None
) -> ServedJob:
    """The jobs of a pipeline as operators of one job, with what was measured where results come out."""
    # A job with a bound of its own counts by that what is late.
    ends = {job.name: job.writes for job in pipeline.ends if pipeline.own_bound_s(job.name) is None}
    return ServedJob(
        pipeline_spec(pipeline),
        journal,
        clock,
        engine=engine,
        wrap_engine=lambda mailbox: MeteredEngine(mailbox, meter, ends),
        extra_state=lambda: {"end_to_end": meter.summary(clock.now()).to_json()},
    )


def pipeline_spec(pipeline: Pipeline) -> JobSpec:
    operators = tuple(
        OperatorSpec(
            job.name,
            job.min_executors,
            job.max_executors,
            job.price,
            slo=job.slo,
            starts=job.min_executors,
        )
        for job in pipeline.jobs
    )
    return JobSpec(
        pipeline.name,
        operators,
        pipeline.end_to_end,
        pipeline.topology.streams,
        pipeline.policy,
        pipeline.settings,
        interval_s=pipeline.interval_s,
        report_every_s=REPORT_EVERY_S,
        seed=pipeline.seed,
    )


def run(plan: ControllerPlan, stop: threading.Event) -> None:
    """Control the pipeline until ``stop`` is set."""
    pipeline = read_pipeline(Path(plan.file), plan.applications).with_policy(plan.policy)
    clock = SystemClock()
    meter = Meter(pipeline.end_to_end.late_after_s, plan.counts_from_ms)
    store = open_store(IN_MEMORY)
    store.tokens.add(plan.token, "pipeline", {Scope.READ, Scope.AGENT})
    # Only the agents of this run may report.
    service = Service(ServiceConfig((), access=AccessRules(open_reading=False)), store, clock)
    job = pipeline_job(pipeline, meter, clock, SqliteJournal(plan.journal))
    service.fleet.add(job)
    with TopicMeter(plan.bootstrap, pipeline.end_topics, meter), ApiServer(make_api(service), plan.port), service:
        while not Path(plan.begun).exists() and not stop.wait(LOOK_EVERY_S):
            job.observe()
        service.take_on(job)
        service.run()
        stop.wait()


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    run(ControllerPlan(**{**data, "applications": tuple(data["applications"])}), stop_event())
    return 0


if __name__ == "__main__":
    sys.exit(main())
