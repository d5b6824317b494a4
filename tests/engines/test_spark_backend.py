"""Who may leave first, and which sessions cannot be scaled at all."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headgate.core.errors import UnsupportedEngineError
from headgate.engines.spark import least_useful
from headgate.engines.spark_backend import Executor, SparkBackend


def executor(name: str, *, active: int = 0, cached: int = 0, added_ms: int = 0) -> Executor:
    return Executor(
        id=name,
        is_active=True,
        cores=1,
        active_tasks=active,
        completed_tasks=0,
        cached_blocks=cached,
        busy_ms=0,
        added_ms=added_ms,
        removed_ms=None,
    )


def test_the_least_useful_are_idle_then_without_blocks_then_young() -> None:
    executors = [
        executor("busy", active=1, added_ms=9),
        executor("cached", cached=3, added_ms=9),
        executor("old", added_ms=1),
        executor("young", added_ms=5),
        executor("miscounted", active=-1, added_ms=3),
    ]
    order = [one.id for one in least_useful(executors)]
    assert order == ["young", "miscounted", "old", "cached", "busy"]


def test_a_spark_connect_session_is_refused() -> None:
    connect_session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UnsupportedEngineError, match=r"Spark Connect session.*without remote"):
        SparkBackend(connect_session, take_over=False)


LOCAL_SESSION = """
from pyspark.sql import SparkSession
import headgate
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    headgate.autoscale(spark, executors=(1, 2))
except headgate.HeadgateError as error:
    print(error)
finally:
    spark.stop()
"""


@pytest.mark.live
def test_a_local_session_has_nothing_to_scale() -> None:
    """In a process of its own: there is only one Spark context in each."""
    done = subprocess.run([sys.executable, "-c", LOCAL_SESSION], capture_output=True, text=True, check=True)
    assert "master is 'local[1]'" in done.stdout
    assert "no executors to scale" in done.stdout
    assert "headgate cluster up" in done.stdout
