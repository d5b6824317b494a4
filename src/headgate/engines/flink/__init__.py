"""The engine for Flink jobs, which are scaled through Flink's REST API."""

from headgate.engines.flink.engine import FlinkEngine

__all__ = ["FlinkEngine"]
