"""Real servers on this machine: Spark, YARN, Kubernetes, Kafka, Flink and Prometheus, each run by a warden."""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from headgate.local.connector import find_connector
    from headgate.local.spark.kubernetes.cluster import LocalKubernetes
    from headgate.local.spark.yarn import LocalYarn

__all__ = ["LocalKubernetes", "LocalYarn", "find_connector"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "LocalKubernetes": "headgate.local.spark.kubernetes.cluster",
        "LocalYarn": "headgate.local.spark.yarn",
        "find_connector": "headgate.local.connector",
    },
)
