"""Jobs on Flink: scaled from outside, by Flink's REST API."""

from headgate.engines.flink.engine import FlinkEngine

__all__ = ["FlinkEngine"]
