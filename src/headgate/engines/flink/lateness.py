"""Latency from end to end: what records waited on the slowest way through the graph, and how many were late by it.

Each operator's reading tells what records have waited because of it; on a way through the graph these waits follow one
another. Records that pass the last operators while that is longer than allowed are counted as late there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.core.topology import Topology
from headgate.core.types import Sample


class Lateness:
    def __init__(self, topology: Topology, late_after_s: float | None) -> None:
        self._topology = topology
        self._late_after_s = late_after_s
        self._ends = tuple(name for name in topology.operators if not topology.downstream(name))
        self._late = dict.fromkeys(self._ends, 0.0)
        self._before: dict[str, tuple[float, float]] = {}
        """Of each end: what was done by the reading before, and how late it was then."""

    def counted(self, samples: Mapping[str, Sample]) -> dict[str, Sample]:
        """The readings, with the late records of those at which results come out."""
        if self._late_after_s is None:
            return dict(samples)
        waited_s = _waited_s(self._topology, samples)
        made = dict(samples)
        for name in self._ends:
            sample, latency_s = samples.get(name), waited_s.get(name)
            if sample is None or sample.done is None or latency_s is None:
                continue
            done, before_s = self._before.get(name, (sample.done, latency_s))
            share = _share_above(before_s, latency_s, self._late_after_s)
            self._late[name] += share * max(0.0, sample.done - done)
            self._before[name] = sample.done, latency_s
            made[name] = replace(sample, late=self._late[name])
        return made

    def longest_s(self, samples: Mapping[str, Sample]) -> float | None:
        """The longest that records have waited on any way to an end; ``None`` while nothing is known of any."""
        waited_s = _waited_s(self._topology, samples)
        return max((waited_s[name] for name in self._ends if name in waited_s), default=None)


def _waited_s(topology: Topology, samples: Mapping[str, Sample]) -> dict[str, float]:
    """What records have waited until they are through each operator, on the slowest way there."""
    found: dict[str, float] = {}
    for name in topology.order:
        before = [found[source] for source in topology.upstream(name) if source in found]
        sample = samples.get(name)
        own_s = None if sample is None else sample.latency_s
        if own_s is not None or before:
            found[name] = (own_s or 0.0) + max(before, default=0.0)
    return found


def _share_above(first: float, last: float, bound: float) -> float:
    """The part of a straight line from one value to another that lies above a bound.

    >>> _share_above(0.0, 20.0, 15.0), _share_above(5.0, 5.0, 4.0)
    (0.25, 1.0)
    """
    low, high = min(first, last), max(first, last)
    if low > bound or high <= bound:
        return float(low > bound)
    return (high - bound) / (high - low)
