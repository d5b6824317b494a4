"""One real cluster of a kind, one session and one broker for all live tests: processes are dear on a small machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headgate.engines.spark import SparkEngine
from headgate.local.connector import find_connector
from headgate.local.flink import LocalFlink
from headgate.local.kafka import LocalKafka
from headgate.local.spark.cluster import LocalCluster
from tests.live.support import resize

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # Blocks of a receiver lie on its executor, whose core it keeps: tasks must not wait for a place there.
    "spark.locality.wait": "0s",
    # A block is a task, and tasks are dear on a small machine too.
    "spark.streaming.blockInterval": "2s",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(slots=6) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: LocalCluster) -> Iterator[SparkSession]:
    settings = SETTINGS | {"spark.jars": find_connector().spark_jars}
    session = cluster.session("live-tests", executors=1, settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """A broker; tests make topics of their own on it."""
    with LocalKafka() as running:
        yield running


@pytest.fixture(scope="session")
def flink() -> Iterator[LocalFlink]:
    """A Flink cluster of four slots on two TaskManagers, or on as many as a test has left."""
    with LocalFlink(taskmanagers=2, slots=2) as running:
        yield running


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[SparkEngine]:
    """An engine on the shared session that has one executor."""
    running = SparkEngine(spark, take_over=True, drain_timeout_s=20.0)
    resize(running, 1)
    yield running
    running.close()
