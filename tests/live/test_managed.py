"""Managed queries on real Spark: run for long, changed while they run, killed in the middle of it, and exact."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.load_source import LoadSource
from headgate.core.errors import QueryFailedError
from headgate.core.types import Event
from headgate.local.spark.cluster import LocalCluster
from headgate.runtime.managed.recovery import MarkerFile, Phase
from headgate.workloads import parse_workload
from tests.live.managed_job import Job
from tests.live.support import eventually

CHILD = Path(__file__).with_name("managed_job.py")
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.bindAddress": "127.0.0.1"}


def job_in(folder: Path, workload: str, seconds: float, **more: object) -> Job:
    """A job whose load begins now."""
    total = math.floor(parse_workload(workload).arrivals(0.0, seconds))
    return Job(str(folder), time.time(), workload, seconds, total, **more)  # type: ignore[arg-type]  # further fields


def test_a_limit_and_state_partitions_are_changed_while_it_runs_and_its_counts_are_exact(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(LoadSource)
    job = job_in(tmp_path, "constant:200", 12.0)
    reported: list[Event] = []
    with headgate.run(
        job.build,
        checkpoint=job.checkpoint.path,
        spark=spark,
        partitions=(2, 4),
        max_records_per_batch=400,
        scale=False,
        on_event=reported.append,
    ) as running:
        eventually("a batch is done", lambda: job.done() > 0)
        running.change(max_records_per_batch=90)
        eventually("the limit is changed", lambda: "cap-changed" in [event.kind for event in reported])
        assert running.query is not None
        before = running.query.runId
        eventually(
            "batches keep to the limit", lambda: running.query is not None and _rows(running.query.lastProgress) == 90
        )
        assert running.query.runId == before, "it was not restarted for that"
        running.change(state_partitions=4, max_records_per_batch=2000)
        eventually("all records are done", lambda: job.done() >= job.total)
        eventually("the change is reported", lambda: "change-made" in [event.kind for event in reported])
    assert running.plan == headgate.Plan(2000, 4)
    assert job.checkpoint.state_partitions == 4
    assert job.counts() == job.expected()
    made = next(event for event in reported if event.kind == "change-made")
    assert 0 < float(made.numbers["pause_s"] or 0) < 60
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "the session has its own number again"
    left = {each.name for each in tmp_path.iterdir() if each.name.startswith("checkpoint")}
    assert left == {"checkpoint", "checkpoint.headgate-learned.json"}


def _rows(progress: object) -> int:
    return -1 if progress is None else int(progress["numInputRows"])  # type: ignore[index]  # a progress event


def test_a_query_that_is_not_valid_is_given_up_with_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    def build(session: SparkSession, _: headgate.Plan) -> object:
        return session.readStream.format("rate").load().select("no_such_column").writeStream.format("noop")

    running = headgate.run(build, checkpoint=tmp_path / "checkpoint", spark=spark, scale=False)  # type: ignore[arg-type]
    with pytest.raises(QueryFailedError, match=r"not valid.*no_such_column"):
        running.wait(60)


# --------------------------------------------------------------------------------------------------- drivers that die


class Driver:
    """A job in a process of its own, in a group of its own, to be killed with all it has started."""

    def __init__(self, job: Job) -> None:
        self.log = Path(job.folder) / "driver.log"
        with self.log.open("ab") as errors, (Path(job.folder) / "events.jsonl").open("ab") as events:
            self.process = subprocess.Popen(
                [sys.executable, str(CHILD), str(job.save())], stdout=events, stderr=errors, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, timeout_s: float) -> None:
        assert self.process.wait(timeout_s) == 0, self.log.read_text(encoding="utf-8")[-2000:]


@contextmanager
def driver(job: Job) -> Iterator[Driver]:
    running = Driver(job)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


def events(job: Job) -> list[str]:
    """The kinds of the events that its drivers reported."""
    file = Path(job.folder) / "events.jsonl"
    return [json.loads(line)["kind"] for line in file.read_text(encoding="utf-8").splitlines()]


def phase_of(job: Job) -> Phase | None:
    marker = MarkerFile(job.checkpoint.path).read()
    return None if marker is None else marker.phase


PHASES: dict[str, Callable[[Job], bool]] = {
    "stopping": lambda job: "change-begun" in events(job),
    "copying": lambda job: phase_of(job) is Phase.BEGUN,
    "copied": lambda job: phase_of(job) is Phase.COPIED,
    "planned": lambda job: phase_of(job) is Phase.COPIED and job.checkpoint.half_repartitioned is not None,
    "writing": lambda job: (job.checkpoint.path / "state" / "0" / "3").exists(),
    "committed": lambda job: job.checkpoint.state_partitions == job.change_to and job.checkpoint.is_settled,
    "starting": lambda job: phase_of(job) is None and job.checkpoint.state_partitions == job.change_to,
}
"""How the phases of a change are seen from outside."""


def killed_in(job: Job, phase: str, delay_s: float, timeout_s: float) -> None:
    """Run a driver until a change has come to a phase, and kill it."""
    with driver(job) as running:
        until_s = time.monotonic() + timeout_s
        while not PHASES[phase](job):
            assert running.process.poll() is None, f"it ended before it was {phase}: {running.log.read_text()[-2000:]}"
            assert time.monotonic() < until_s, f"not within {timeout_s:g} s: {phase}; {events(job)}"
            time.sleep(0.002)
        threading.Event().wait(delay_s)
        running.kill()


@pytest.mark.soak
def test_a_driver_that_is_killed_while_state_is_repartitioned_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run = {"partitions": [2, 4], "scale": False, "max_records_per_batch": 400}
    job = job_in(tmp_path, "constant:300", 4.0, settings=QUIET, run=run, change_after=300, change_to=4)
    killed_in(job, "planned", delay_s=0.0, timeout_s=90)
    assert job.checkpoint.half_repartitioned == 4
    with driver(job) as running:
        running.wait(90)
    assert "change-recovered" in events(job)
    assert job.checkpoint.state_partitions == 4
    assert job.counts() == job.expected()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10))
def test_a_job_that_grows_from_2_to_8_state_partitions_is_exact_wherever_it_is_killed(
    cluster: LocalCluster, tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    phase = list(PHASES)[seed % len(PHASES)]
    run = {
        "objective": "latency p95 < 6s",
        "partitions": [2, 8],
        "executors": [1, 6],
        "interval": 1.0,
        "held_for": 2.0,
        "take_over": True,
        "journal": str(tmp_path / "journal.db"),
        "settings": {"scale_in_window_s": 30.0},
    }
    job = job_in(
        tmp_path,
        "ramp:from=20,to=110,over=40s",
        90.0,
        master=cluster.master_url,
        settings=QUIET | cluster.settings(executors=1),
        run=run,
        cost_s=0.02,
    )
    killed_in(job, phase, delay_s=chosen.uniform(0.0, 0.3), timeout_s=240)
    with driver(job) as running:
        running.wait(420)  # A busy machine works off what came meanwhile for minutes.
    assert job.checkpoint.state_partitions == 8
    assert job.counts() == job.expected()
