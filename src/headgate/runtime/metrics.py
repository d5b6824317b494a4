"""Metrics that somebody subscribed to: which of them the engine collects, and which come from the user's callables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from headgate.core.contracts import Engine, Subscribable
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import MetricCallable, MetricSource, Observed, aggregate, split_key
from headgate.core.types import METRIC_FIELDS, Observation, Sample
from headgate.runtime.interrupts import raise_if_interrupted

logger = logging.getLogger("headgate")


def require_metrics(keys: Collection[str], sources: Mapping[str, MetricSource], offered: Collection[str]) -> None:
    """Refuse metrics that nobody could give."""
    known = {*sources, *offered}
    for key in sorted(keys):
        name, _ = split_key(key)
        if name not in known:
            error = UnknownNameError("metric for this engine", name, known)
            raise InputError(f"{error} A metric of your own needs a source: metrics={{{name!r}: …}}.")


class MetricCollector:
    """Sees to it that samples carry what was subscribed to, and nothing else is collected.

    A callable is asked with each reading of an operator. One that fails gives no reading, and that is said once. One
    under the name of a metric that every engine reads is asked in place of the engine.
    """

    def __init__(self, engine: Engine, sources: Mapping[str, MetricSource] | None = None) -> None:
        self._engine = engine
        self._sources = dict(sources or {})
        self._wanted: dict[str, MetricCallable] = {}
        self._instead = {
            name: source
            for name, source in self._sources.items()
            if name in METRIC_FIELDS and not isinstance(source, Observed)
        }
        self._failing: set[str] = set()

    def subscribe(self, keys: Collection[str]) -> None:
        """Collect these from now on; one that nobody could give is an ``InputError``."""
        self.require(keys)
        called = {key: source for key in keys if (source := self._callable(key)) is not None}
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(frozenset(keys) - called.keys())
        self._wanted = called

    def require(self, keys: Collection[str]) -> None:
        """Refuse metrics that nobody could give."""
        offered = self._engine.extra_metrics if isinstance(self._engine, Subscribable) else ()
        require_metrics(keys, self._sources, offered)

    def _callable(self, key: str) -> MetricCallable | None:
        source = self._sources.get(split_key(key)[0])
        return None if source is None or isinstance(source, Observed) else source

    def completed(self, observation: Observation) -> Observation:
        """The observation with the callables' metrics in its samples."""
        if not self._wanted and not self._instead:
            return observation
        samples = {name: self._with_metrics(sample) for name, sample in observation.samples.items()}
        return replace(observation, samples=samples)

    def _with_metrics(self, sample: Sample) -> Sample:
        found = {key: self._read(key, source, sample.operator) for key, source in self._wanted.items()}
        instead = {name: self._read(name, source, sample.operator) for name, source in self._instead.items()}
        return replace(sample, metrics={**sample.metrics, **found}, **instead)  # type: ignore[arg-type]  # all gauges

    def _read(self, key: str, source: MetricCallable, operator: str) -> float | None:
        name, aggregation = split_key(key)
        try:
            value = source(operator)
            numbers = [float(value)] if isinstance(value, int | float) else [float(number) for number in value or ()]
        except Exception as error:  # noqa: BLE001
            raise_if_interrupted(error)
            # Somebody else's code: whatever it raises costs this reading and no more.
            if name not in self._failing:
                logger.warning("metric %s of %s cannot be read: %s: %s", name, operator, type(error).__name__, error)
            self._failing.add(name)
            return None
        self._failing.discard(name)
        return aggregate(numbers, aggregation)
