"""q-learning with a real job: nothing in it knows the engine, and what it learned goes on in the next run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.core.types import Verdict
from headgate.engines.spark import SparkEngine
from headgate.journal.writer import SqliteJournal
from headgate.runtime.past import read_state
from tests.live.support import eventually

SETTINGS = {"window_size_s": 4, "decision_interval_s": 3, "latency_granularity_s": 1, "max_latency_s": 30}


@pytest.mark.soak
def test_it_scales_a_real_job_learns_from_it_and_continues_from_there(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    engine.close()
    job = SteadyJob(
        tmp_path,
        workload="ramp:from=10,to=90,over=20s",
        seconds=90.0,
        cost_s=0.025,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=120,
    )
    journal = tmp_path / "journal.db"
    made: list[Verdict] = []
    options = {
        "objective": "latency p95 < 4s",
        "policy": "q-learning",
        "settings": SETTINGS,
        "executors": (1, 3),
        "interval": 1.0,
        "take_over": True,
    }
    query = job.start(spark)
    try:
        with headgate.autoscale(spark, **options, journal=journal) as first:  # type: ignore[arg-type]
            first.watch(lambda _, decided: made.append(decided.verdicts["job"]) if decided else None)
            eventually("a scale-out", lambda: any(decision.change > 0 for decision in made))
            eventually("something learned", lambda: any("last_reward" in decision.numbers for decision in made))
        learned = read_state(journal, "q-learning")
        with headgate.autoscale(spark, **options, state=journal) as second:  # type: ignore[arg-type]
            assert second.loop.policy.snapshot() == learned
        eventually("a batch that is done", lambda: any(progress["numInputRows"] for progress in query.recentProgress))
    finally:
        query.stop()
    grown = next(decision for decision in made if decision.change > 0)
    assert grown.code == "scale-out"
    assert {"q_out", "q_none", "q_in", "region"} <= set(grown.numbers)
    with closing(SqliteJournal.read(journal)) as reader:
        saved = [reader.load_state(key) for key in reader.state_keys()]
    assert learned in saved
    assert job.check(spark).is_exact
