"""The driver of one job of a pipeline: ``python -m headgate.apps.pipeline_driver PLAN``, where PLAN is a file of JSON.

It opens a session, starts the job's query, and joins the controller, which decides its size, as the operator of the
job's name. It ends on SIGTERM, with its query, and with its parent, which holds the other end of its standard input.
After a restart it continues from its checkpoint.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.agent import join
from headgate.apps.pipeline_plan import BuildFunction, PipelinePlan
from headgate.apps.registry import find_application
from headgate.core.errors import QueryFailedError
from headgate.engines.spark.query_plan import Plan
from headgate.local.spark.cluster import graceful_removal, local_settings, open_session, starting_size
from headgate.local.supervisor import stop_event
from headgate.runtime.managed.run import ManagedRun
from headgate.runtime.managed.run import run as managed_run

logger = logging.getLogger("headgate")

LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class DriverPlan:
    """The parameters of a driver, written by the process that starts it."""

    pipeline: str
    job: str
    master: str
    is_local: bool
    """Whether the master is on this machine, with workers that share it."""
    bootstrap: str
    reads: tuple[str, ...]
    writes: str
    checkpoint: str
    trigger_s: float
    executors: int
    jars: str
    service: str
    token: str
    app: str | None = None
    module: str | None = None
    function: str | None = None
    file: str | None = None
    """The module's file, which is also sent to executors; ``None`` if it is installed there."""
    max_records_per_batch: int | None = None
    """``None``: as many as the job completes in time."""
    state_partitions: tuple[int, int] | None = None
    """Fewest and most; ``None``: those of the session."""
    objective: str = "latency p95 < 10s"
    """The job's part of the objective, which determines the most records of a batch."""
    late_after_s: float | None = None
    """The job's own bound by which it counts late records; ``None`` if only the end of the pipeline counts."""
    spark: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """The session's settings; heaps are small, because each job has a driver."""
        own = local_settings(self.executors) if self.is_local else starting_size(self.executors) | graceful_removal()
        return {
            **own,
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": self.jars,
            **self.spark,
        }

    def query_plan(self, query: Plan) -> PipelinePlan:
        return PipelinePlan(self.job, self.bootstrap, self.reads, self.writes, self.trigger_s, query)


def find_function(plan: DriverPlan) -> BuildFunction:
    """Return the function that builds the job's query."""
    if plan.app is not None:
        return _of_application(plan.app)
    assert plan.module is not None
    assert plan.function is not None
    if plan.file is not None:
        sys.path.insert(0, str(Path(plan.file).parents[plan.module.count(".")]))
    found: BuildFunction = getattr(importlib.import_module(plan.module), plan.function)
    return found


def _of_application(name: str) -> BuildFunction:
    application = find_application(name)

    def build(spark: SparkSession, plan: PipelinePlan) -> DataStreamWriter:
        results = application.run(plan.read(spark))
        return plan.write(results, key=application.keys[0]).outputMode(application.output_mode)

    return build


def run(plan: DriverPlan, stop: threading.Event) -> int:
    """Run the job until it ends or ``stop`` is set; return the exit code."""
    build = find_function(plan)
    spark = open_session(plan.master, f"{plan.pipeline}: {plan.job}", plan.settings)
    if plan.file is not None:
        spark.sparkContext.addPyFile(plan.file)
    managed: list[ManagedRun] = []
    agent = join(
        spark,
        service=plan.service,
        job=plan.pipeline,
        operator=plan.job,
        token=plan.token,
        late_after_s=plan.late_after_s,
        watcher=lambda seen: managed[0].observe(seen, None) if managed else None,
    )
    running = managed_run(
        lambda session, query: build(session, plan.query_plan(query)),
        checkpoint=plan.checkpoint,
        objective=plan.objective,
        spark=spark,
        partitions=plan.state_partitions,
        max_records_per_batch=plan.max_records_per_batch or "auto",
        scale=False,
        on_event=agent.agent.note,
    )
    managed.append(running)
    try:
        while not stop.is_set():
            if running.wait(LOOK_EVERY_S):
                return 0
        running.stop()
        return 0
    except QueryFailedError as error:
        logger.error("%s", error)
        return 1
    finally:
        agent.stop()
        spark.stop()


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    state = data.get("state_partitions")
    partitions = None if state is None else tuple(state)
    plan = DriverPlan(**{**data, "reads": tuple(data["reads"]), "state_partitions": partitions})
    return run(plan, stop_event())


if __name__ == "__main__":
    sys.exit(main())
