"""How long records have waited, by when so many had come to where they wait."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from headgate.core.topology import Topology
from headgate.core.types import Instant

KEPT = 2000


class Curve:
    """How many records had come, over time.

    >>> curve = Curve()
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
        if len(self._times_s) > KEPT:
            del self._times_s[: KEPT // 2], self._counts[: KEPT // 2]

    def age_s(self, now: Instant, count: float, otherwise_per_s: float) -> float | None:
        """How long ago the record with this number came; what came before the first news came as fast as it goes."""
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


def waits_s(
    topology: Topology, ages_s: Mapping[str, float | None], culprits: Mapping[str, str]
) -> dict[str, float | None]:
    """What records have waited because of each operator: on the slowest way to it, all that waits for it.

    >>> chain = Topology.of(("source", "slow"), ("slow", "sink"))
    >>> waits_s(chain, {"source": 4.0, "slow": 3.0, "sink": 0.1}, {"source": "slow", "slow": "slow", "sink": "sink"})
    {'source': 0.0, 'slow': 7.0, 'sink': 0.1}
    """
    upto: dict[str, float | None] = {}
    found: dict[str, float | None] = dict.fromkeys(topology.operators, 0.0)
    for name in topology.order:
        whose = culprits.get(name)
        if whose is None:
            continue
        # What waits further up for somebody else is told of them.
        before = [upto[source] for source in topology.upstream(name) if culprits.get(source) == whose]
        upto[name] = _sum(ages_s.get(name), _longest(before))
        found[whose] = _longest([found[whose], upto[name]])
    return found


def _longest(values: list[float | None]) -> float | None:
    """The longest; ``None`` as soon as one of them is not known."""
    known = [value for value in values if value is not None]
    return max(known, default=0.0) if len(known) == len(values) else None


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second
