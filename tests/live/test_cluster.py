"""The machine can run what the live tests rely on: Spark with executors in processes of their own."""

import os
from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local-cluster[1,1,1024]")
        .appName("test-cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_python_runs_in_an_executor_and_not_in_the_driver(spark: SparkSession) -> None:
    def own_pid(_: Iterable[int]) -> Iterator[int]:
        yield os.getpid()

    (pid,) = spark.sparkContext.parallelize([0], 1).mapPartitions(own_pid).collect()
    assert pid != os.getpid()
