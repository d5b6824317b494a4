"""Lag, rate and latency of a stranger's Kafka job against an outside observer, also inside long batches."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.core.types import Observation
from headgate.engines.spark import SparkEngine
from headgate.local.kafka import LocalKafka
from tests.live.support import eventually
from tests.live.truth import Load, Truth, compare, create_topics, start_job

LOAD_S = 52.0
COST_S = 0.01
"""Two executors get through 200 records/s at most. What arrives beyond that until the end takes them 12 s more, which
is how long the last batch is at least, on whatever machine."""


def rising(since_s: float) -> float:
    """Ten times as much within 40 s."""
    return 40.0 + 360.0 * max(0.0, min(1.0, (since_s - 10.0) / 40.0))


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_what_is_read_of_a_kafka_job_is_the_truth_at_any_moment(
    spark: SparkSession, engine: SparkEngine, kafka: LocalKafka, tmp_path: Path
) -> None:
    engine.close()
    topic = f"in-{uuid.uuid4().hex}"
    sink = f"out-{topic}"
    create_topics(kafka.bootstrap, topic, sink)
    seen: list[Observation] = []
    load = Load(kafka.bootstrap, topic, rising, LOAD_S).start()
    query = start_job(spark, kafka.bootstrap, topic, sink, tmp_path, COST_S)
    try:
        # Two executors cannot keep up with the peak: batches grow to many seconds.
        with headgate.autoscale(
            spark, objective="latency p95 < 5s", executors=(1, 2), interval=1.0, take_over=True
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            eventually("the end of the load", lambda: load.is_over)
            query.processAllAvailable()
            eventually("the end to be seen", lambda: seen[-1].samples["job"].backlog == 0, 10.0)
    finally:
        query.stop()
    truth = Truth.of(kafka.bootstrap, topic, sink)
    compared = [comparison for observation in seen if (comparison := compare(observation, truth)) is not None]
    wrong = [comparison for comparison in compared if comparison.wrong]
    assert (truth.missing, truth.doubled) == (0, 0)
    assert len(compared) > LOAD_S
    assert max(comparison.sample.running_s or 0.0 for comparison in compared) > 8, "it was looked inside long batches"
    assert max(comparison.ready for comparison in compared) == 2, "it was looked while it was scaled"
    assert not wrong, "\n".join(map(str, wrong))
