"""Which sessions cannot be scaled at all."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headgate.core.errors import UnsupportedEngineError
from headgate.engines.spark.backend import SparkBackend


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
