"""The demand on each operator: the records that arrived, or would have if nothing upstream were backpressured.

A forecast of the load, and a size planned for it, must not rest on what the bottleneck lets through: the throughput
of a job that is too small says nothing about its load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.topology import Topology
from headgate.core.types import Instant
from headgate.engines.flink.bottleneck import Ratios

MOST_BACKPRESSURED = 0.9
"""The highest share of backpressured time from which the rate of a source is extrapolated."""


class OperatorDemand:
    """Records that each operator should have processed since the start.

    >>> demand = OperatorDemand(Topology.of(("source", "slow")))
    >>> demand.add(10.0, {"source": 50.0, "slow": 40.0}, {"source": 20.0, "slow": 10.0}, {("source", "slow"): 1.0})
    >>> demand.arrived
    {'source': 70.0, 'slow': 70.0}
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.arrived = dict.fromkeys(topology.operators, 0.0)
        self.rates_per_s = dict.fromkeys(topology.operators, 0.0)
        """Arrival rates between the last two readings."""
        self.is_known = True
        """Whether the demand is known up to the last reading."""
        self._has_rates = False
        self._missed_s = 0.0

    def begin(self, waiting: Mapping[str, float]) -> None:
        """Count the records that wait at the first reading as arrived."""
        for name, records in waiting.items():
            self.arrived[name] += records

    def extrapolate(self, elapsed_s: float) -> None:
        """Assume the previous rates for a span in which nothing was counted, because the job restarted."""
        for name, rate in self.rates_per_s.items():
            self.arrived[name] += rate * elapsed_s
        self.is_known = self._has_rates

    def skip(self, elapsed_s: float) -> None:
        """Note a span of unknown arrivals; they are counted with those of the next span."""
        self._missed_s += elapsed_s
        self.is_known = False

    def add(self, elapsed_s: float, done: Mapping[str, float], more_wait: Mapping[str, float], ratios: Ratios) -> None:
        """Add the records processed since, and the change in records that wait in front of each operator."""
        more_upstream: dict[str, float] = {}
        """The change in records that wait in front of an operator or upstream of it."""
        for name in self._topology.order:
            before = sum(ratios[source, name] * more_upstream[source] for source in self._topology.upstream(name))
            more_upstream[name] = more_wait.get(name, 0.0) + before
            arrived = max(0.0, done.get(name, 0.0) + more_upstream[name])
            self.arrived[name] += arrived
            self.rates_per_s[name] = arrived / (elapsed_s + self._missed_s)
        self.is_known, self._has_rates, self._missed_s = True, True, 0.0


def withheld(done: float, backpressured_share: float | None) -> float:
    """Return how many more records a source would have read without backpressure.

    >>> withheld(600.0, 0.25)
    200.0
    """
    share = min(MOST_BACKPRESSURED, backpressured_share or 0.0)
    return done * share / (1 - share)


OVER_S = 20.0
"""The span over which the arrival rate is measured that is extrapolated while a source does not read."""
LEAST_S = 5.0
"""The shortest span over which a rate is measured: a report may be as old as the previous reading."""


@dataclass(frozen=True, slots=True)
class _SourceReport:
    at_s: Instant
    read: float
    waiting: float

    @property
    def arrived(self) -> float:
        return self.read + self.waiting


class PendingRecords:
    """Records that wait at the sources of one job, extrapolated while a source does not report.

    A Kafka source learns how much waits when it reads. A backpressured one does not read and repeats its last number,
    however much arrives. Until it reads again, arrivals are assumed to continue at their previous rate.

    >>> pending = PendingRecords()
    >>> reports = ((0.0, 0.0, 50.0), (10.0, 500.0, 550.0), (14.0, 500.0, 550.0), (20.0, 600.0, 1450.0))
    >>> [pending.at("clicks", at_s, read, waiting) for at_s, read, waiting in reports]
    [50.0, 550.0, 950.0, 1450.0]
    """

    def __init__(self) -> None:
        self._reports: dict[str, list[_SourceReport]] = {}
        """The recent reports of each source that differ from the previous one, the oldest first."""
        self._rates_per_s: dict[str, float] = {}
        self._unknown: set[str] = set()

    def restart(self) -> None:
        """Forget reports: those of a restarted job cannot be compared with earlier ones."""
        self._reports.clear()

    @property
    def is_known(self) -> bool:
        """Whether the arrivals at all sources were known at the last call of ``at``."""
        return not self._unknown

    def at(self, source: str, at_s: Instant, read: float, waiting: float) -> float:
        """Return the records that wait at a source that reports to have read and still to read so many."""
        self._unknown.discard(source)
        reports = self._reports.setdefault(source, [])
        newest = reports[-1] if reports else None
        if newest is None or waiting <= 0 or (read, waiting) != (newest.read, newest.waiting):
            self._add(source, reports, _SourceReport(at_s, read, waiting))
            return waiting
        rate_per_s = self._rates_per_s.get(source)
        if rate_per_s is None:
            self._unknown.add(source)
        return waiting + (rate_per_s or 0.0) * (at_s - newest.at_s)

    def _add(self, source: str, reports: list[_SourceReport], now: _SourceReport) -> None:
        """Add a report and update the arrival rate up to it."""
        reports.append(now)
        while len(reports) > 2 and now.at_s - reports[1].at_s >= OVER_S:
            del reports[0]
        span_s = now.at_s - reports[0].at_s
        if span_s >= LEAST_S:
            self._rates_per_s[source] = max(0.0, (now.arrived - reports[0].arrived) / span_s)
