"""The operator that waiting records wait for, and the records that lie between operators.

Flink backpressures a source when any operator after it has no room, so records wait far from the operator that is too
slow. A policy that sizes each operator by its own queue would then enlarge the source, which is idle. So waiting
records are attributed to their bottleneck: from where they are, downstream as long as operators are backpressured.

>>> chain = Topology.of(("source", "slow"), ("slow", "sink"))
>>> shares = {"source": TimeShares(0.1, 0.8), "slow": TimeShares(1.0, 0.0), "sink": TimeShares(0.2, 0.0)}
>>> ratios = {("source", "slow"): 2.0, ("slow", "sink"): 1.0}
>>> waiting_by_bottleneck(chain, shares, ratios, {"source": 100.0, "slow": 30.0, "sink": 0.0})
{'source': 0.0, 'slow': 230.0, 'sink': 0.0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.topology import Topology

BACKPRESSURED_FROM = 0.1
"""An operator counts as backpressured from this share of its time."""
BUSY_ENOUGH = 0.9
"""An operator that is not idle for this share of its time counts as the bottleneck of an upstream operator whose
backpressure is unknown."""

Ratios = Mapping[tuple[str, str], float]
"""Records that an operator receives for each record that its upstream operator processes, by stream."""


@dataclass(frozen=True, slots=True)
class TimeShares:
    """How an operator spent its recent time; ``None`` where Flink does not know."""

    busy: float | None
    backpressured: float | None

    @property
    def pressure(self) -> float:
        """The share of time in which it was not idle."""
        return (self.busy or 0.0) + (self.backpressured or 0.0)


NOTHING = TimeShares(None, None)


def waiting_by_bottleneck(
    topology: Topology, shares: Mapping[str, TimeShares], ratios: Ratios, pools: Mapping[str, float]
) -> dict[str, float]:
    """Return the records that wait for each bottleneck, counted as its input, from those in front of each operator."""
    waiting = dict.fromkeys(topology.operators, 0.0)
    for operator, records in pools.items():
        whose, ratio = bottleneck_of(topology, shares, ratios, operator)
        waiting[whose] += ratio * records
    return waiting


def bottleneck_of(
    topology: Topology, shares: Mapping[str, TimeShares], ratios: Ratios, operator: str
) -> tuple[str, float]:
    """Return the operator that records in front of this one wait for, and how many records each becomes there."""
    ratio = 1.0
    while (pressing := _pressing(topology, shares, operator)) is not None:
        ratio *= ratios.get((operator, pressing), 1.0)
        operator = pressing
    return operator, ratio


def _pressing(topology: Topology, shares: Mapping[str, TimeShares], operator: str) -> str | None:
    """Return the downstream operator that backpressures this one, or ``None``."""
    downstream = topology.downstream(operator)
    if not downstream:
        return None
    hardest = max(downstream, key=lambda name: shares.get(name, NOTHING).pressure)
    backpressured = shares.get(operator, NOTHING).backpressured
    if backpressured is None:
        return hardest if shares.get(hardest, NOTHING).pressure >= BUSY_ENOUGH else None
    return hardest if backpressured >= BACKPRESSURED_FROM else None


HALF_LIFE_S = 60.0


def records_in_flight(
    topology: Topology, written: Mapping[str, float], read: Mapping[str, float], shares: Mapping[str, TimeShares]
) -> dict[str, float]:
    """Return the records in Flink's buffers in front of each operator; sources have none.

    Flink counts an operator's output over all its streams together, so only the sum over operators that share writers
    is known; it is divided in proportion to how busy the readers are.

    >>> fork = Topology.of(("a", "b"), ("a", "c"))
    >>> shares = {"b": TimeShares(1.0, 0.0), "c": TimeShares(0.0, 0.0)}
    >>> records_in_flight(fork, {"a": 120.0}, {"b": 50.0, "c": 50.0}, shares)
    {'b': 20.0, 'c': 0.0}
    """
    found: dict[str, float] = {}
    for operator in topology.operators:
        if operator in found or not topology.upstream(operator):
            continue
        readers, writers = _together(topology, operator)
        missing = max(
            0.0, sum(written.get(writer, 0.0) for writer in writers) - sum(read.get(reader, 0.0) for reader in readers)
        )
        weights = {reader: shares.get(reader, NOTHING).pressure for reader in readers}
        total = sum(weights.values())
        for reader in readers:
            found[reader] = missing * (weights[reader] / total if total > 0 else 1 / len(readers))
    return found


def _together(topology: Topology, operator: str) -> tuple[list[str], set[str]]:
    """Return the operators that share a writer with this one, directly or through others, and all their writers."""
    readers, writers = [operator], set[str]()
    for reader in readers:
        for writer in topology.upstream(reader):
            writers.add(writer)
            readers += [other for other in topology.downstream(writer) if other not in readers]
    return readers, writers


class StreamRatios:
    """The records that each operator receives per record of its upstream operator, over about the last minute."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._done = dict.fromkeys(topology.operators, 0.0)
        self._given = dict.fromkeys(topology.operators, 0.0)
        self._written = dict.fromkeys(topology.operators, 0.0)

    def add(
        self, elapsed_s: float, done: Mapping[str, float], given: Mapping[str, float], written: Mapping[str, float]
    ) -> None:
        """Add the records processed, received and written since the last call."""
        left = 0.5 ** (elapsed_s / HALF_LIFE_S)
        for sums, more in ((self._done, done), (self._given, given), (self._written, written)):
            for name, count in more.items():
                sums[name] = left * sums[name] + max(0.0, count)

    def all(self) -> dict[tuple[str, str], float]:
        return {stream: self._ratio(*stream) for stream in self._topology.streams}

    def _ratio(self, source: str, operator: str) -> float:
        done = self._done[source]
        if not done > 0:
            return 1.0
        if self._topology.upstream(operator) == (source,):
            return self._given[operator] / done
        # With several upstream operators, the output of each is known only for all its streams together.
        return self._written[source] / done / len(self._topology.downstream(source))
