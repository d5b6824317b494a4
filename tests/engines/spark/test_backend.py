"""Which sessions cannot be scaled at all."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import UnsupportedEngineError
from headgate.engines.spark.backend import SparkBackend


def test_a_spark_connect_session_is_refused() -> None:
    connect_session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UnsupportedEngineError, match=r"Spark Connect session.*without remote"):
        SparkBackend(connect_session, take_over=False)
