"""Metrics as rules name them, and the help for names that do not exist."""

from __future__ import annotations

from collections.abc import Collection

from headgate.core.errors import UnknownNameError
from headgate.core.metrics import METRICS

_ALIASES = {name.removesuffix("_per_s").removesuffix("_s"): name for name in METRICS if name.endswith("_s")}
"""``latency`` for ``latency_s``: where the value carries its unit, the name need not."""

_MEANT = {
    "queue_length": "backlog",
    "queue_size": "backlog",
    "queue": "backlog",
    "lag": "backlog",
    "consumer_lag": "backlog",
    "delay": "latency",
    "response_time": "latency",
    "cpu": "utilization",
    "cpu_utilization": "utilization",
    "cpu_utilisation": "utilization",
    "utilisation": "utilization",
    "load": "busy_share",
    "rate": "input_rate",
    "throughput": "processed_rate",
    "memory": "memory_share",
}
"""What other systems call the same thing."""


def metric_named(name: str, further: Collection[str] = ()) -> str:
    """The full name of a metric; ``further`` are the user's own.

    >>> metric_named("latency"), metric_named("backlog"), metric_named("fraud", ["fraud"])
    ('latency_s', 'backlog', 'fraud')
    """
    full = _ALIASES.get(name, name)
    if name in further or full in METRICS:
        return name if name in further else full
    likely = _MEANT.get(name.strip().lower().replace("-", "_").replace(" ", "_"))
    known = {_short(metric) for metric in METRICS} | set(further)
    raise UnknownMetricError(name, known, likely)


def _short(name: str) -> str:
    return next((alias for alias, full in _ALIASES.items() if full == name), name)


class UnknownMetricError(UnknownNameError):
    """A metric that nobody knows, with what is known for the same thing elsewhere."""

    def __init__(self, name: str, known: Collection[str], likely: str | None) -> None:
        super().__init__("metric", name, known)
        hint = (
            ""
            if likely is None
            else f"unknown metric {name!r}, did you mean {likely!r}? Known: {', '.join(self.known)}."
        )
        self.args = (f"{hint or self.args[0]} A metric of your own is named under 'metrics' before rules refer to it.",)
