"""Records between operators: those that are written and not read yet, and how many come out for each that goes in."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.topology import Topology
from headgate.engines.flink.blame import NOTHING, Shares

HALF_LIFE_S = 60.0


def in_flight(
    topology: Topology, written: Mapping[str, float], read: Mapping[str, float], shares: Mapping[str, Shares]
) -> dict[str, float]:
    """Records that lie in front of each operator in Flink's own buffers; sources have none.

    Flink counts what an operator writes over all its streams, so that it is known of those together that share writers;
    most of it lies in front of who has most to do.

    >>> fork = Topology.of(("a", "b"), ("a", "c"))
    >>> in_flight(fork, {"a": 120.0}, {"b": 50.0, "c": 50.0}, {"b": Shares(1.0, 0.0), "c": Shares(0.0, 0.0)})
    {'b': 20.0, 'c': 0.0}
    """
    found: dict[str, float] = {}
    for operator in topology.operators:
        if operator in found or not topology.upstream(operator):
            continue
        readers, writers = _together(topology, operator)
        missing = max(0.0, sum(written.get(one, 0.0) for one in writers) - sum(read.get(one, 0.0) for one in readers))
        weights = {one: shares.get(one, NOTHING).pressure for one in readers}
        total = sum(weights.values())
        for one in readers:
            found[one] = missing * (weights[one] / total if total > 0 else 1 / len(readers))
    return found


def _together(topology: Topology, operator: str) -> tuple[list[str], set[str]]:
    """The operators that share a writer with this one, directly or through others, and all who write to them."""
    readers, writers = [operator], set[str]()
    for reader in readers:
        for writer in topology.upstream(reader):
            writers.add(writer)
            readers += [one for one in topology.downstream(writer) if one not in readers]
    return readers, writers


class StreamRatios:
    """What each operator gets for each record that one before it does, over about the last minute."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._done = dict.fromkeys(topology.operators, 0.0)
        self._given = dict.fromkeys(topology.operators, 0.0)
        self._written = dict.fromkeys(topology.operators, 0.0)

    def add(
        self, elapsed_s: float, done: Mapping[str, float], given: Mapping[str, float], written: Mapping[str, float]
    ) -> None:
        """Take in what was done, given and written since this was last told."""
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
        # Fed by several: what the source writes is known only for all that it writes to.
        return self._written[source] / done / len(self._topology.downstream(source))
