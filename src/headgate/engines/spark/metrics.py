"""What a Spark application can tell beyond the basic metrics, collected only while somebody subscribes to it.

Two kinds: what each executor reports of itself, put together over the executors as the subscriber asked, and what the
job computes itself with ``df.observe``. No JVM is needed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headgate.core.metrics import METRICS, Observed, aggregate, split_key
from headgate.engines.spark.snapshots import Executor

_OF_EXECUTOR: Mapping[str, Callable[[Executor], float | None]] = {
    "memory_share": lambda executor: executor.memory_used / executor.memory if executor.memory else None,
    "gc_share": lambda executor: min(1.0, executor.gc_ms / executor.busy_ms) if executor.busy_ms else None,
    "active_tasks": lambda executor: float(max(0, executor.active_tasks)),
    "failed_tasks": lambda executor: float(executor.failed_tasks),
}
SPARK_METRICS = frozenset(name for name in _OF_EXECUTOR if METRICS[name].per_instance)
"""The names of the metrics that executors report."""


class SparkMetrics:
    """The metrics that are subscribed to."""

    def __init__(self, observed: Mapping[str, Observed] | None = None) -> None:
        self._observed = dict(observed or {})
        self._keys: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Everything that could be subscribed to."""
        return SPARK_METRICS | self._observed.keys()

    def subscribe(self, keys: Collection[str]) -> None:
        self._keys = tuple(sorted(keys))

    def collect(
        self, executors: Sequence[Executor], observed: Mapping[tuple[str, str], float]
    ) -> dict[str, float | None]:
        """What is subscribed to, by key; ``observed`` is the newest of each observation and column."""
        found: dict[str, float | None] = {}
        for key in self._keys:
            name, aggregation = split_key(key)
            if name in self._observed:
                source = self._observed[name]
                found[key] = observed.get((source.observation, source.column))
            elif name in _OF_EXECUTOR:
                values = [
                    value for one in executors if one.is_active and (value := _OF_EXECUTOR[name](one)) is not None
                ]
                found[key] = aggregate(values, aggregation)
        return found


def observed_in(progress: Mapping[str, object]) -> dict[tuple[str, str], float]:
    """The numbers that ``df.observe`` put into a progress event, by observation and column.

    >>> observed_in({"observedMetrics": {"quality": {"errors": 3, "note": "text"}}})
    {('quality', 'errors'): 3.0}
    """
    observations = progress.get("observedMetrics")
    if not isinstance(observations, Mapping):
        return {}
    return {
        (str(name), str(column)): float(value)
        for name, columns in observations.items()
        if isinstance(columns, Mapping)
        for column, value in columns.items()
        if isinstance(value, int | float)
    }
