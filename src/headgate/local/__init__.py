"""Real servers on this machine, on loopback: Spark, YARN, Kafka, Flink and Prometheus, each run by a warden."""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from headgate.local.connector import find_connector
    from headgate.local.spark.yarn import LocalYarn

__all__ = ["LocalYarn", "find_connector"]

__getattr__ = lazy_attributes(
    __name__, {"LocalYarn": "headgate.local.spark.yarn", "find_connector": "headgate.local.connector"}
)
