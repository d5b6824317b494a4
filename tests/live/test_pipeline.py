"""Pipelines of real Spark applications, joined by topics of a real broker, scaled by one controller."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import headgate.apps.payloads  # noqa: F401 - registers the payloads of all applications
from headgate.apps.registry import application_names
from headgate.apps.texts import PATTERN
from headgate.core.types import JSON
from headgate.local.kafka import LocalKafka
from headgate.local.spark.cluster import LocalCluster
from headgate.local.supervisor import ProcessSupervisor
from headgate.pipelines.document import read_pipeline
from headgate.pipelines.report import PipelineRun, write_pipeline_report
from headgate.pipelines.run import CONTROLLER, PipelineRunPlan, run_pipeline
from headgate.workloads.replay import ReplayProgress

ROOT = Path(__file__).parents[2]
APPLICATIONS = tuple(application_names())
TWO_JOBS = """\
version: 1
name: two
objective: latency p95 < 30s
interval: 2s
load: {workload: "constant:60", seconds: 6s, to: two-lines, app: grep}
topics: {two-lines: 2, two-matches: 2, two-out: 1}
jobs:
  grep: {app: grep, from: two-lines, to: two-matches, executors: [1, 1], trigger: 1s}
  look-up: {build: "pipeline_steps:look_up", from: two-matches, to: two-out, executors: [1, 2], trigger: 1s}
"""
THREE_JOBS = """\
version: 1
name: three
objective: latency p95 < 60s
interval: 5s
load: {workload: "constant:20", seconds: 100s, to: raw}
topics: {raw: 4, parsed: 4, enriched: 2, out: 1}
jobs:
  parse: {build: "pipeline_steps:parse", from: raw, to: parsed, executors: [1, 2]}
  enrich: {build: "pipeline_steps:enrich", from: parsed, to: enriched, executors: [1, 2]}
  once: {build: "pipeline_steps:once", from: enriched, to: out, executors: [1, 1]}
"""


class Spectator:
    """Remembers what it was shown; at chosen moments something is done to the run."""

    def __init__(self, at_sent: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.stages: list[str] = []
        self.states: list[Mapping[str, JSON]] = []
        self._at_sent = dict(at_sent or {})

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def state(self, state: Mapping[str, JSON], load: ReplayProgress | None) -> None:
        self.states.append(state)
        for sent in [sent for sent in self._at_sent if load is not None and load.sent >= sent]:
            self._at_sent.pop(sent)()


def run(folder: Path, text: str, spectator: Spectator, **where: str) -> PipelineRun:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    (folder / "pipeline_steps.py").write_text((ROOT / "tests/live/pipeline_steps.py").read_text())
    output = folder / "output"
    output.mkdir()
    plan = PipelineRunPlan(read_pipeline(file, APPLICATIONS), APPLICATIONS, output, **where)
    return write_pipeline_report(plan, run_pipeline(plan, spectator, threading.Event()))


def test_two_jobs_joined_by_a_topic_give_every_record_once_and_report_as_one(
    tmp_path: Path, cluster: LocalCluster, kafka: LocalKafka
) -> None:
    reported = run(tmp_path, TWO_JOBS, Spectator(), master=cluster.master_url, bootstrap=kafka.bootstrap)
    end, load = reported.outcome.end_to_end, reported.pipeline.load
    assert load is not None
    lines = load.make_payloads().records(0, np.zeros(load.schedule.total, dtype=np.int64))
    matches = sum(re.search(PATTERN, json.loads(line.value)["text"]) is not None for line in lines)
    assert reported.outcome.sent == len(lines) == 360
    assert 0 < matches < 360
    assert (end["distinct"], end["doubled"], end["unmeasured"]) == (matches, 0, 0)
    assert 0 < end["p50_s"] < 30
    assert not reported.outcome.restarts
    assert all(job.mean_instances > 0 for job in reported.jobs.values())
    page = reported.report.read_text()
    assert "What happened to grep" in page
    assert "What happened to look-up" in page


# ---------------------------------------------------------------------------------------------------- longer proofs


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["chain", "fork"])
def test_an_example_keeps_its_objective_with_jobs_of_different_sizes(name: str, tmp_path: Path) -> None:
    pipeline = read_pipeline(ROOT / f"examples/pipeline-{name}.yaml", APPLICATIONS)
    plan = PipelineRunPlan(pipeline, APPLICATIONS, tmp_path)
    reported = write_pipeline_report(plan, run_pipeline(plan, Spectator(), threading.Event()))
    assert reported.outcome.end_to_end["records"] == reported.outcome.sent
    assert reported.in_time_pct is not None
    assert reported.in_time_pct >= 95
    assert len({reported.largest[job.name] for job in pipeline.jobs}) > 1
    assert any(job.rescales >= 2 for job in reported.jobs.values())


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_killed_drivers_controllers_and_executors_cost_no_record_and_double_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver of a job, the controller, the driver of another job and an executor are killed with -9 under load."""
    started: list[ProcessSupervisor] = []

    class Watched(ProcessSupervisor):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            started.append(self)

    monkeypatch.setattr("headgate.pipelines.run.ProcessSupervisor", Watched)

    def kill(name: str) -> Callable[[], None]:
        def killed() -> None:
            pid = started[0][name].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

        return killed

    def kill_executor() -> None:
        from tests.live.support import executor_processes

        next(iter(executor_processes().values())).kill()

    moments = {400: kill("parse"), 800: kill(CONTROLLER), 1200: kill("enrich"), 1500: kill_executor}
    spectator = Spectator(moments)
    reported = run(tmp_path, THREE_JOBS, spectator)
    end = reported.outcome.end_to_end
    assert reported.outcome.sent == 2000
    assert (end["distinct"], end["doubled"]) == (2000, 0)
    assert reported.outcome.restarts == {"parse": 1, CONTROLLER: 1, "enrich": 1}
