"""Rules on a real cluster: rouaux §5.2.3 with a faster clock, a rule file changed meanwhile, further metrics."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, lit

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.core.types import Observation
from headgate.engines.spark import SparkEngine
from headgate.journal.writer import SqliteJournal
from headgate.rules import Observed, Rules
from tests.live.support import eventually, resize

PATIENCE_S = 240.0
"""A machine that is busy with other things is no failure: what is checked is the order of things, not their speed."""
LONG_QUEUE = """\
version: 1
rules:
  - name: queue too long
    scale_out: job
    by: 2
    never_above: 3
    when:
      - metric: backlog
        above: 60 records
        for_at_least: 6s
    with_no_scale_out_since: 5m
"""
EMPTY_QUEUE = """\
  - name: nothing waits
    scale_in: job
    by: 2
    when:
      - metric: backlog
        below: 30 records
        for_at_least: 4s
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_5_2_3_a_long_queue_is_emptied_by_two_more_executors(spark: SparkSession, tmp_path: Path) -> None:
    start_with_one_executor(spark)
    # 15 arrive in a second and one executor serves fewer than 10 of them; three serve more than 15.
    job = SteadyJob(
        tmp_path,
        workload="constant:15",
        seconds=25.0,
        cost_s=0.1,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=30,
    )
    rules, journal = tmp_path / "rules.yaml", tmp_path / "journal.db"
    rules.write_text(LONG_QUEUE)
    seen: list[Observation] = []
    query = job.start(spark)
    try:
        with headgate.autoscale(
            spark, policy=Rules.from_file(rules), executors=(1, 4), interval=1.0, journal=journal, take_over=True
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            eventually("three executors", lambda: bool(seen) and seen[-1].instances["job"].ready == 3, PATIENCE_S)
            eventually("an empty queue", lambda: (_backlog(seen[-1]) or 0) < 30 and _peak(seen) > 60, PATIENCE_S)
            assert seen[-1].instances["job"].ready == 3
            rules.write_text(LONG_QUEUE + EMPTY_QUEUE)
            eventually("one executor", lambda: seen[-1].instances["job"].ready == 1, PATIENCE_S)
            query.processAllAvailable()
    finally:
        query.stop()
    assert job.check(spark).is_exact
    with closing(SqliteJournal.read(journal)) as reader:
        changes = [(decision.at_s, decision.verdicts["job"]) for decision in reader.decisions() if not decision.is_hold]
        readings = [observation.samples["job"] for observation in reader.observations() if "job" in observation.samples]
        (changed,) = [event for event in reader.events() if event.kind == "policy-changed"]
    # An observation repeats the newest reading until there is another.
    samples = list({sample.at_s: sample for sample in readings}.values())
    (out_s, out), (in_s, back) = changes[:2]
    assert (out.current, out.target, out.code) == (1, 3, "rule-out")
    assert "backlog" in out.reason
    assert "has been above 60 records since" in out.reason
    first_s = next(sample.at_s for sample in samples if sample.backlog is not None and sample.backlog > 60)
    # A decision bears the time at which its tick began, and rests on the reading that was taken then, a moment later.
    last_s = next(sample.at_s for sample in samples if sample.at_s >= out_s)
    before = [sample for sample in samples if first_s <= sample.at_s <= last_s]
    assert all(sample.backlog is not None and sample.backlog > 60 for sample in before)
    assert last_s - first_s >= 6.0
    # It was the first reading that spans the time, but for those that a guard set aside.
    assert all(sample.warming for sample in before[:-1] if sample.at_s - first_s >= 6.0)
    assert (back.current, back.target, back.code) == (3, 1, "rule-in")
    assert out_s < changed.at_s < in_s
    assert "new 'nothing waits'" in changed.detail


@pytest.mark.timeout(600)
def test_a_rule_can_go_by_what_the_job_observes_and_what_executors_report(spark: SparkSession, tmp_path: Path) -> None:
    start_with_one_executor(spark)
    rules = Rules.from_yaml(
        """
        rules:
          - name: many rows
            scale_out: job
            by: 1
            never_above: 2
            when:
              - {metric: rows, above: 5, for_at_least: 2s}
              - {metric: failed_tasks, below: 1, for_at_least: 2s, over_instances: max}
        """,
        metrics={"rows": Observed("quality", "rows")},
    )
    journal = tmp_path / "journal.db"
    rows = spark.readStream.format("rate").option("rowsPerSecond", "20").load()
    query = (
        rows.observe("quality", count(lit(1)).alias("rows"))
        .writeStream.format("noop")
        .trigger(processingTime="1 second")
        .start()
    )
    sizes: list[int] = []
    try:
        with headgate.autoscale(
            spark, policy=rules, executors=(1, 2), interval=1.0, journal=journal, take_over=True
        ) as autoscaler:
            autoscaler.watch(lambda seen, _: sizes.append(seen.instances["job"].planned) if seen else None)
            eventually("two executors", lambda: max(sizes, default=0) == 2, PATIENCE_S)
    finally:
        query.stop()
    with closing(SqliteJournal.read(journal)) as reader:
        metrics = [
            observation.samples["job"].metrics for observation in reader.observations() if "job" in observation.samples
        ]
        (change,) = [decision.verdicts["job"] for decision in reader.decisions() if not decision.is_hold]
    assert set(metrics[-1]) == {"rows", "failed_tasks:max"}
    assert metrics[-1]["rows"] == pytest.approx(20, abs=20)
    assert metrics[-1]["failed_tasks:max"] == 0
    assert "rows" in change.reason
    assert "failed_tasks:max" in change.reason


def start_with_one_executor(spark: SparkSession) -> None:
    with closing(SparkEngine(spark, take_over=True)) as engine:
        resize(engine, 1)


def _backlog(observation: Observation) -> float | None:
    sample = observation.samples.get("job")
    return None if sample is None else sample.backlog


def _peak(seen: list[Observation]) -> float:
    return max((backlog for observation in seen if (backlog := _backlog(observation)) is not None), default=0.0)
