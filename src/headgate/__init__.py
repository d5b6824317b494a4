"""Headgate keeps a streaming job at the size its service-level objective needs, and no larger.

import headgate

with headgate.autoscale(spark, objective="latency p95 < 10s", executors=(1, 8)):
    query.awaitTermination()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate._version import __version__

if TYPE_CHECKING:
    from headgate.agent.join import join
    from headgate.client.client import Client
    from headgate.core.errors import HeadgateError
    from headgate.core.objective import (
        By,
        CostLimit,
        LatencySlo,
        Objective,
        SlowShareSlo,
        ThroughputSlo,
        parse_objective,
    )
    from headgate.engines.spark.query_plan import Plan
    from headgate.lab.what_if import explain
    from headgate.local.kafka import LocalKafka
    from headgate.render.explanation import Explanation
    from headgate.runtime.autoscaler import Autoscaler, autoscale, autoscale_engine
    from headgate.runtime.managed.failures import Restarts
    from headgate.runtime.managed.run import ManagedRun, run
    from headgate.runtime.prometheus import Prometheus
    from headgate.runtime.simulate import simulate
    from headgate.workloads.parse import parse_workload

__all__ = [
    "Autoscaler",
    "By",
    "Client",
    "CostLimit",
    "Explanation",
    "HeadgateError",
    "LatencySlo",
    "LocalCluster",
    "LocalKafka",
    "ManagedRun",
    "Objective",
    "Plan",
    "Prometheus",
    "Restarts",
    "SlowShareSlo",
    "ThroughputSlo",
    "__version__",
    "autoscale",
    "autoscale_engine",
    "explain",
    "join",
    "parse_objective",
    "parse_workload",
    "run",
    "simulate",
]

# Looked up when first used: `import headgate` costs next to nothing, and never imports Spark.
_HOMES = {
    "Autoscaler": "headgate.runtime.autoscaler",
    "By": "headgate.core.objective",
    "Client": "headgate.client.client",
    "CostLimit": "headgate.core.objective",
    "Explanation": "headgate.render.explanation",
    "HeadgateError": "headgate.core.errors",
    "LatencySlo": "headgate.core.objective",
    "LocalCluster": "headgate.local.spark.cluster",
    "LocalKafka": "headgate.local.kafka",
    "ManagedRun": "headgate.runtime.managed.run",
    "Objective": "headgate.core.objective",
    "Plan": "headgate.engines.spark.query_plan",
    "Prometheus": "headgate.runtime.prometheus",
    "Restarts": "headgate.runtime.managed.failures",
    "SlowShareSlo": "headgate.core.objective",
    "ThroughputSlo": "headgate.core.objective",
    "autoscale": "headgate.runtime.autoscaler",
    "autoscale_engine": "headgate.runtime.autoscaler",
    "explain": "headgate.lab.what_if",
    "join": "headgate.agent.join",
    "parse_objective": "headgate.core.objective",
    "parse_workload": "headgate.workloads.parse",
    "run": "headgate.runtime.managed.run",
    "simulate": "headgate.runtime.simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    from headgate.core.extras import needing

    with needing(f"headgate.{name}"):
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
