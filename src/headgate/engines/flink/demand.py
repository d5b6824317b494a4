"""What is asked of each operator: what came to it, and what would have if nothing before it were held back.

A load that is forecast, and a size that is planned for it, must not be those of the bottleneck itself: what gets
through a job that is too small says nothing of what is wanted of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.topology import Topology
from headgate.engines.flink.blame import Ratios

MOST_HELD_BACK = 0.9
"""A source that was held back for longer than this share of its time tells nothing of what it would have read."""


class Demand:
    """Records that were asked of each operator since the start.

    >>> demand = Demand(Topology.of(("source", "slow")))
    >>> demand.add(10.0, {"source": 50.0, "slow": 40.0}, {"source": 20.0, "slow": 10.0}, {("source", "slow"): 1.0})
    >>> demand.arrived
    {'source': 70.0, 'slow': 70.0}
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.arrived = dict.fromkeys(topology.operators, 0.0)
        self.rates_per_s = dict.fromkeys(topology.operators, 0.0)
        """Over the last span between two readings."""
        self.is_known = True
        """Whether it is known up to the last reading."""
        self._has_rates = False
        self._missed_s = 0.0

    def begin(self, waiting: Mapping[str, float]) -> None:
        """At the first reading: what waits has come."""
        for name, records in waiting.items():
            self.arrived[name] += records

    def went_on(self, elapsed_s: float) -> None:
        """Nothing was counted meanwhile, as the job was started again: as much came as did before."""
        for name, rate in self.rates_per_s.items():
            self.arrived[name] += rate * elapsed_s
        self.is_known = self._has_rates

    def missed(self, elapsed_s: float) -> None:
        """Nobody could tell what came meanwhile; it is seen with what comes next."""
        self._missed_s += elapsed_s
        self.is_known = False

    def add(self, elapsed_s: float, done: Mapping[str, float], more_wait: Mapping[str, float], ratios: Ratios) -> None:
        """Take in what was done since, and by how many more (or fewer) records wait in front of each operator."""
        further_up: dict[str, float] = {}
        """By how many more wait in front of an operator, or further up because of what comes after it."""
        for name in self._topology.order:
            before = sum(ratios[source, name] * further_up[source] for source in self._topology.upstream(name))
            further_up[name] = more_wait.get(name, 0.0) + before
            came = max(0.0, done.get(name, 0.0) + further_up[name])
            self.arrived[name] += came
            self.rates_per_s[name] = came / (elapsed_s + self._missed_s)
        self.is_known, self._has_rates, self._missed_s = True, True, 0.0


def withheld(done: float, held_back_share: float | None) -> float:
    """What a source would have read beyond what it did, had it not been held back; by how long it was.

    >>> withheld(600.0, 0.25)
    200.0
    """
    share = min(MOST_HELD_BACK, held_back_share or 0.0)
    return done * share / (1 - share)
