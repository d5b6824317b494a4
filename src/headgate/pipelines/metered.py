"""The jobs' agents as an engine, with what was measured from end to end in the readings of the last jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headgate.core.topology import Topology
from headgate.core.types import Decision, Observation, Receipt
from headgate.engines.agents import AgentsEngine
from headgate.pipelines.meter import Meter


class MeteredEngine:
    """``ends`` are the operators at which results come out, with the topics that they write.

    Their ``late`` counts records that came out later than the objective from end to end allows. Of other operators
    nobody can say what is late, as long as they have no objective of their own.
    """

    def __init__(self, engine: AgentsEngine, meter: Meter, ends: Mapping[str, str]) -> None:
        self._engine = engine
        self._meter = meter
        self._ends = ends

    def topology(self) -> Topology:
        return self._engine.topology()

    @property
    def extra_metrics(self) -> Collection[str]:
        return self._engine.extra_metrics

    def subscribe(self, keys: Collection[str]) -> None:
        self._engine.subscribe(keys)

    def observe(self) -> Observation:
        seen = self._engine.observe()
        measured = {
            name: replace(seen.samples[name], late=self._meter.late(topic))
            for name, topic in self._ends.items()
            if name in seen.samples
        }
        return replace(seen, samples={**seen.samples, **measured})

    def apply(self, decision: Decision) -> Receipt:
        return self._engine.apply(decision)

    def close(self) -> None:
        self._engine.close()
