"""A Spark application as an engine: structured streaming queries or DStreams, scaled by their executors."""

from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

from headgate.engines.spark.dstream import DStreamEngine, open_engine
from headgate.engines.spark.engine import SparkEngine, application_id, application_name
from headgate.engines.spark.metrics import SPARK_METRICS

__all__ = [
    "SPARK_METRICS",
    "DStreamEngine",
    "SparkEngine",
    "SparkSession",
    "StreamingContext",
    "application_id",
    "application_name",
    "open_engine",
]
