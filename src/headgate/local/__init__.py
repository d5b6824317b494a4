"""Real servers on this machine, on loopback: Spark, Kafka, Flink and Prometheus, each run by a warden."""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from headgate.local.connector import find_connector

__all__ = ["find_connector"]

__getattr__ = lazy_attributes(__name__, {"find_connector": "headgate.local.connector"})
