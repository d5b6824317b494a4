"""A Spark application as an engine: structured streaming queries or DStreams, scaled by their executors.

Names are resolved on first use, so that importing a module of this package that needs no Spark does not load it.
"""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.streaming import StreamingContext

    from headgate.engines.spark.dstream import DStreamEngine, open_engine
    from headgate.engines.spark.engine import (
        SPARK_METRICS,
        SparkEngine,
        application_id,
        application_name,
        configuration,
    )

__all__ = [
    "SPARK_METRICS",
    "DStreamEngine",
    "SparkEngine",
    "SparkSession",
    "StreamingContext",
    "application_id",
    "application_name",
    "configuration",
    "open_engine",
]

_MODULES = {
    "SPARK_METRICS": "headgate.engines.spark.engine",
    "DStreamEngine": "headgate.engines.spark.dstream",
    "SparkEngine": "headgate.engines.spark.engine",
    "SparkSession": "pyspark.sql",
    "StreamingContext": "pyspark.streaming",
    "application_id": "headgate.engines.spark.engine",
    "application_name": "headgate.engines.spark.engine",
    "configuration": "headgate.engines.spark.engine",
    "open_engine": "headgate.engines.spark.dstream",
}

__getattr__ = lazy_attributes(__name__, _MODULES)
