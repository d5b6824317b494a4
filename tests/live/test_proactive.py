"""proactive with a real job: it explores, takes over, and says so in the journal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.journal.writer import SqliteJournal
from headgate.runtime.past import read_state
from tests.live.support import eventually


@pytest.mark.soak
def test_it_explores_a_real_job_and_takes_over(spark: SparkSession, tmp_path: Path) -> None:
    job = SteadyJob(
        tmp_path,
        workload="periodic:base=12,peak=80,high=12s,low=14s",
        seconds=240.0,
        cost_s=0.025,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=160,
    )
    journal = tmp_path / "journal.db"
    modes: list[object] = []
    query = job.start(spark)
    try:
        with headgate.autoscale(
            spark,
            objective="latency p95 < 3s",
            policy="proactive",
            executors=(1, 3),
            # Seconds where one would set minutes: this is about the way through both modes, not about what is learned.
            settings={
                "check_every_s": 15.0,
                "least_readings": 10,
                "stability_threshold": 2.0,
                "idle_for_s": 4.0,
                "horizon_s": 10.0,
                "forecast_step_s": 1.0,
            },
            interval=1.0,
            journal=journal,
            take_over=True,
        ) as autoscaler:
            autoscaler.watch(
                lambda _, decided: modes.append(decided.verdicts["job"].numbers.get("mode")) if decided else None
            )
            eventually("optimal control", lambda: "optimal-control" in modes, timeout_s=200.0)
    finally:
        query.stop()
    assert modes.index("exploration") < modes.index("optimal-control")
    with closing(SqliteJournal.read(journal)) as reader:
        events = reader.events()
    switch = next(event for event in events if event.kind == "mode-switched")
    assert "exploration → optimal control; a model of degree" in switch.detail
    state = read_state(journal, "proactive")
    assert state["operators"]["job"]["model"] is not None
    assert job.check(spark).is_exact
