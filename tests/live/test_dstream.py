"""A Spark Streaming job on a real cluster: its batches are read, and it is scaled as any other job."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

import headgate
from headgate.core.errors import UnsupportedEngineError
from headgate.core.types import Observation, Role
from headgate.engines.spark import SparkEngine
from headgate.journal.writer import SqliteJournal
from tests.live.support import eventually, resize

pytestmark = pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")

RATE_PER_S = 30
COST_S = 0.035
BATCH_S = 4


class Feed:
    """Lines at a steady rate for the first client that connects."""

    def __init__(self, seconds: float) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.sent = 0
        self._seconds = seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection, _ = self._server.accept()
        with connection:
            for tick in range(int(self._seconds * 10)):
                count = RATE_PER_S // 10
                connection.sendall(b"".join(f"{tick}\n".encode() for _ in range(count)))
                self.sent += count
                if self._done.wait(0.1):
                    break

    def close(self) -> None:
        """End the stream; calling it twice is fine."""
        self._done.set()
        self._thread.join(10)
        self._server.close()


def working(cost_s: float) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Work on every line. A function within a function is sent to the executors, which cannot import this file."""

    def work(lines: Iterable[Any]) -> Iterator[Any]:
        for line in lines:
            time.sleep(cost_s)
            yield line

    return work


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[StreamingContext]:
    context = StreamingContext(spark.sparkContext, BATCH_S)
    yield context
    context.stop(stopSparkContext=False)


@pytest.mark.soak
def test_batches_are_read_and_the_job_is_scaled_out_when_they_wait(
    spark: SparkSession, engine: SparkEngine, streaming: StreamingContext, tmp_path: Path
) -> None:
    """The receiver keeps one executor busy: of two, one is left for more than a second of work per second."""
    resize(engine, 2)
    engine.close()
    feed = Feed(seconds=90.0)
    counts: list[int] = []
    lines = streaming.socketTextStream("127.0.0.1", feed.port)
    lines.repartition(3).mapPartitions(working(COST_S)).foreachRDD(lambda rdd: counts.append(rdd.count()))
    seen: list[Observation] = []
    journal = tmp_path / "journal.db"
    streaming.start()
    try:
        with headgate.autoscale(
            streaming,
            objective="latency p95 < 6s",
            policy="spark-streaming-dra",
            settings={"interval_s": 5.0},
            executors=(2, 3),
            interval=1.0,
            journal=journal,
            take_over=True,
        ) as autoscaler:
            # Sizes come from the autoscaler's own engine: an engine does not know what another one requested.
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            eventually("a scale-out", lambda: bool(seen) and seen[-1].instances["job"].requested == 3)
            feed.close()
            eventually("three executors", lambda: seen[-1].instances["job"].ready == 3)
            eventually("all batches", lambda: sum(counts) >= feed.sent)
            eventually("the end to be seen", lambda: seen[-1].samples["job"].backlog == 0)
    finally:
        feed.close()
    samples = [observation.samples["job"] for observation in seen if "job" in observation.samples]
    assert sum(counts) == feed.sent
    settled = [sample for sample in samples if sample.processed_rate_per_s is not None]
    assert all(sample.trigger_interval_s == BATCH_S for sample in settled)
    rates = [sample.input_rate_per_s for sample in settled if sample.input_rate_per_s is not None]
    assert max(rates) == pytest.approx(RATE_PER_S, rel=0.35)
    batches = [batch for sample in samples for batch in sample.batches]
    # Batches that were over before the autoscaler started are not reported.
    assert sum(batch.records for batch in batches) == pytest.approx(feed.sent, abs=2 * BATCH_S * RATE_PER_S)
    for batch in batches:
        # The oldest record of a batch came at the beginning of the interval that the batch is of.
        waited_s = BATCH_S + batch.scheduling_delay_s + batch.processing_time_s
        assert batch.latency_s == pytest.approx(waited_s, abs=0.1)
    assert any((sample.backlog or 0) > 0 for sample in settled)
    with closing(SqliteJournal.read(journal)) as reader:
        changes = [decision.verdicts["job"] for decision in reader.decisions() if not decision.is_hold]
    assert changes[0].code == "ratio-high"


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_azimis_learner_scales_a_dstream_job_as_sparks_configuration_says(
    spark: SparkSession, engine: SparkEngine, streaming: StreamingContext, tmp_path: Path
) -> None:
    """q-learning acts, and its relatives decide on the same batches; all are at work on readings of DStreams."""
    resize(engine, 2)
    engine.close()
    feed = Feed(seconds=120.0)
    counts: list[int] = []
    lines = streaming.socketTextStream("127.0.0.1", feed.port)
    lines.repartition(3).mapPartitions(working(COST_S)).foreachRDD(lambda rdd: counts.append(rdd.count()))
    conf: Any = streaming.sparkContext._conf
    learner = {
        "targetLatency": f"{BATCH_S}s",
        "windowSize": f"{2 * BATCH_S}s",
        "decisionInterval": f"{BATCH_S}s",
        "executorStrategy": "static",
        "minExecutors": "2",
        "maxExecutors": "3",
    }
    for name, value in learner.items():
        conf.set(f"spark.headgate.{name}", value)
    journal = tmp_path / "journal.db"
    shadows = ("value-iteration", "committee", "online-parameter-optimization")
    seen: list[Observation] = []
    streaming.start()
    try:
        with headgate.autoscale(
            streaming,
            objective="latency p95 < 6s",
            policy="q-learning",
            interval=1.0,
            journal=journal,
            take_over=True,
            shadows=shadows,
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            # One executor receives, and one is left for more than a second of work per second.
            eventually("a scale-out", lambda: bool(seen) and seen[-1].instances["job"].requested == 3)
            eventually("three executors", lambda: seen[-1].instances["job"].ready == 3)
            feed.close()
            eventually("all batches", lambda: sum(counts) >= feed.sent)
    finally:
        feed.close()
        for name in learner:
            conf._jconf.remove(f"spark.headgate.{name}")
    with closing(SqliteJournal.read(journal)) as reader:
        decisions, (_, run) = reader.decisions(), reader.runs()[-1]
    acting = [decision for decision in decisions if decision.role is Role.ACTING and not decision.is_hold]
    assert acting[0].verdicts["job"].code == "scale-out"
    assert acting[0].verdicts["job"].numbers["target_s"] == BATCH_S
    assert run.settings["window_size_s"] == 2 * BATCH_S
    codes = {
        name: {decision.verdicts["job"].code for decision in decisions if decision.policy == name} for name in shadows
    }
    assert all(found - {"no-data"} for found in codes.values()), codes
    assert sum(counts) == feed.sent


def test_spark_streamings_own_allocation_is_not_fought(streaming: StreamingContext) -> None:
    conf = streaming.sparkContext._conf
    conf.set("spark.streaming.dynamicAllocation.enabled", "true")
    try:
        with pytest.raises(UnsupportedEngineError, match=r"spark\.streaming\.dynamicAllocation\.enabled=false"):
            headgate.autoscale(streaming, executors=(1, 2))
    finally:
        conf.set("spark.streaming.dynamicAllocation.enabled", "false")
