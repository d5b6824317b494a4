"""One real cluster and one session for all live tests: an executor is dear on a small machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headgate.engines.cluster import LocalCluster
from headgate.engines.spark import SparkEngine
from tests.live.support import resize


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(slots=6) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: LocalCluster) -> Iterator[SparkSession]:
    session = cluster.session("live tests", executors=1, settings={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[SparkEngine]:
    """An engine on the shared session that has one executor."""
    running = SparkEngine(spark, take_over=True, drain_timeout_s=20.0)
    resize(running, 1)
    yield running
    running.close()
