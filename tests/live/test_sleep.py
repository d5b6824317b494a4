"""A job that may be without executors: it sleeps when nothing comes, and the first record that waits wakes it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.core.objective import parse_objective
from headgate.core.types import JSON, Instances, Observation
from headgate.engines.spark import SparkEngine
from headgate.journal.writer import SqliteJournal
from headgate.local.kafka import LocalKafka
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload
from tests.live.records import contents, produce
from tests.live.support import eventually, executor_processes
from tests.live.truth import PARTITIONS, start_job

OBJECTIVE = "latency p95 < 30s"
FEWEST, MOST = 0, 2
EARLIER = 40


@pytest.mark.soak
def test_an_idle_job_holds_no_executor_and_the_first_record_wakes_it(
    spark: SparkSession, engine: SparkEngine, kafka: LocalKafka, tmp_path: Path
) -> None:
    """It knows from elsewhere how long work takes: otherwise it would need a batch first, and a minute of nothing."""
    engine.close()
    (tmp_path / "learned.json").write_text(json.dumps(_learned()))
    topic = f"in-{uuid.uuid4().hex}"
    kafka.create_topic(topic, PARTITIONS)
    kafka.create_topic(f"out-{topic}", PARTITIONS)
    produce(kafka, topic, range(EARLIER))
    query = start_job(spark, kafka.bootstrap, topic, f"out-{topic}", tmp_path / "checkpoint", cost_s=0.01)
    seen: list[Observation] = []
    try:
        query.processAllAvailable()
        with headgate.autoscale(
            spark,
            OBJECTIVE,
            executors=(FEWEST, MOST),
            settings={"scale_in_window_s": 5.0},
            interval=1.0,
            journal=tmp_path / "journal.db",
            state=tmp_path / "learned.json",
            take_over=True,
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            eventually("no executor", lambda: not executor_processes() and _sizes(seen) == Instances(0, 0, 0))
            produce(kafka, topic, [EARLIER])
            eventually("an executor", lambda: _sizes(seen) == Instances(1, 1, 1))
            query.processAllAvailable()
    finally:
        query.stop()
    assert contents(kafka, f"out-{topic}") == Counter(range(EARLIER + 1))
    with closing(SqliteJournal.read(tmp_path / "journal.db")) as reader:
        changes = [
            (verdict.current, verdict.target)
            for decision in reader.decisions()
            if (verdict := decision.verdicts["job"]).change
        ]
    assert changes == [(1, 0), (0, 1)]


def _learned() -> JSON:
    """What it learns of such a job in two minutes."""
    return simulate(
        "autopilot",
        parse_workload("constant:20"),
        objective=parse_objective(OBJECTIVE).within(FEWEST, MOST),
        service_rate_per_s=100.0,
        model=MicroBatch(trigger_interval_s=2.0),
        seconds=120.0,
    ).state


def _sizes(seen: list[Observation]) -> Instances | None:
    return seen[-1].instances["job"] if seen else None
