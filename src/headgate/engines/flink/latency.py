"""Latency from end to end: how long records wait on the slowest path through the graph, and how many are late.

Each sample gives how long records wait for its operator; along a path these waits add up. Records that pass the last
operators while the sum exceeds the bound are counted as late there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample

MOST_POINTS = 2000


class ArrivalHistory:
    """The number of records that had arrived, over time.

    >>> curve = ArrivalHistory()
    >>> for at_s, count in ((0.0, 0.0), (10.0, 100.0), (20.0, 400.0)):
    ...     curve.add(at_s, count)
    >>> curve.age_s(20.0, 50.0, 10.0), curve.age_s(20.0, -30.0, 10.0)
    (15.0, 23.0)
    """

    def __init__(self) -> None:
        self._times_s: list[Instant] = []
        self._counts: list[float] = []

    @property
    def newest(self) -> float:
        return self._counts[-1]

    def add(self, at_s: Instant, count: float) -> None:
        self._times_s.append(at_s)
        self._counts.append(count)
        if len(self._times_s) > MOST_POINTS:
            del self._times_s[: MOST_POINTS // 2], self._counts[: MOST_POINTS // 2]

    def age_s(self, now: Instant, count: float, otherwise_per_s: float) -> float | None:
        """Return how long ago the record with this number arrived; before the first point, at ``otherwise_per_s``."""
        times_s, counts = self._times_s, self._counts
        if count < counts[0]:
            return now - times_s[0] + (counts[0] - count) / otherwise_per_s if otherwise_per_s > 0 else None
        place = bisect_left(counts, count)
        if place == len(counts):
            return 0.0
        if place == 0:
            return now - times_s[0]
        share = (count - counts[place - 1]) / (counts[place] - counts[place - 1])
        return max(0.0, now - times_s[place - 1] - share * (times_s[place] - times_s[place - 1]))


def waits_by_operator_s(
    topology: Topology, own_waits_s: Mapping[str, float | None], bottlenecks: Mapping[str, str]
) -> dict[str, float | None]:
    """Return how long records wait for each bottleneck, on the slowest path to it.

    >>> chain = Topology.of(("source", "slow"), ("slow", "sink"))
    >>> bottlenecks = {"source": "slow", "slow": "slow", "sink": "sink"}
    >>> waits_by_operator_s(chain, {"source": 4.0, "slow": 3.0, "sink": 0.1}, bottlenecks)
    {'source': 0.0, 'slow': 7.0, 'sink': 0.1}
    """
    upto: dict[str, float | None] = {}
    found: dict[str, float | None] = dict.fromkeys(topology.operators, 0.0)
    for name in topology.order:
        bottleneck = bottlenecks.get(name)
        if bottleneck is None:
            continue
        # Upstream records that wait for another bottleneck are counted there.
        before = [upto[source] for source in topology.upstream(name) if bottlenecks.get(source) == bottleneck]
        upto[name] = _sum(own_waits_s.get(name), _longest(before))
        found[bottleneck] = _longest([found[bottleneck], upto[name]])
    return found


def _longest(values: list[float | None]) -> float | None:
    """Return the longest; ``None`` if any is unknown."""
    known = [value for value in values if value is not None]
    return max(known, default=0.0) if len(known) == len(values) else None


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


class LatencyTracker:
    """Counts late records at the last operators, from one reading to the next."""

    def __init__(self, topology: Topology, late_after_s: float | None) -> None:
        self._topology = topology
        self._late_after_s = late_after_s
        self._ends = tuple(name for name in topology.operators if not topology.downstream(name))
        self._late = dict.fromkeys(self._ends, 0.0)
        self._before: dict[str, tuple[float, float]] = {}
        """By last operator: the records processed up to the previous reading, and the latency then."""

    def with_late_records(self, samples: Mapping[str, Sample]) -> dict[str, Sample]:
        """Return the samples, those of the last operators with their late records."""
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
        """Return the longest latency on any path to a last operator, or ``None`` if none is known."""
        waited_s = _waited_s(self._topology, samples)
        return max((waited_s[name] for name in self._ends if name in waited_s), default=None)


def _waited_s(topology: Topology, samples: Mapping[str, Sample]) -> dict[str, float]:
    """Return how long records have waited when they leave each operator, on the slowest path to it."""
    found: dict[str, float] = {}
    for name in topology.order:
        before = [found[source] for source in topology.upstream(name) if source in found]
        sample = samples.get(name)
        own_s = None if sample is None else sample.latency_s
        if own_s is not None or before:
            found[name] = (own_s or 0.0) + max(before, default=0.0)
    return found


def _share_above(first: float, last: float, bound: float) -> float:
    """Return the share of a straight line between two values that lies above a bound.

    >>> _share_above(0.0, 20.0, 15.0), _share_above(5.0, 5.0, 4.0)
    (0.25, 1.0)
    """
    low, high = min(first, last), max(first, last)
    if low > bound or high <= bound:
        return float(low > bound)
    return (high - bound) / (high - low)
