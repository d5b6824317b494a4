"""Micro-batch jobs joined by topics, in virtual time: each job reads what its upstream job has processed.

Latency is measured end to end as well: records stay in order, so the number of a result tells when its record arrived.
A job may feed several others, each of which gets everything. It cannot read from several, because then a result would
not identify its record.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.simulation.batch_job import OPERATOR, MicroBatchJob
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.contract import Warmed
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.contract import Workload


class Relayed:
    """The results of one operator, as the workload of those downstream: known up to now and growing.

    >>> relayed = Relayed()
    >>> relayed.give(10.0, 0.0)
    >>> relayed.give(12.0, 50.0)
    >>> relayed.arrivals(0.0, 10.0), relayed.arrivals(10.0, 11.0), relayed.rate_per_s(11.0), relayed.next_turn_s(10.5)
    (0.0, 25.0, 25.0, 12.0)
    """

    def __init__(self) -> None:
        self._times_s: list[float] = [0.0]
        self._counts: list[float] = [0.0]

    def give(self, until_s: float, records: float) -> None:
        """Add results that came out evenly between the previous call and a later time."""
        before = len(self._times_s) - 1
        if before and records == 0 and self._counts[before] == self._counts[before - 1]:
            self._times_s[before] = until_s  # Still no results: extend the last span.
            return
        self._times_s.append(until_s)
        self._counts.append(self._counts[before] + records)

    def by(self, at_s: float) -> float:
        """Return the results that had come out by a time."""
        after = bisect_right(self._times_s, at_s)
        if after == len(self._times_s):
            return self._counts[-1]
        if after == 0:
            return 0.0
        share = (at_s - self._times_s[after - 1]) / (self._times_s[after] - self._times_s[after - 1])
        return self._counts[after - 1] + share * (self._counts[after] - self._counts[after - 1])

    def rate_per_s(self, at_s: float) -> float:
        after = bisect_right(self._times_s, at_s)
        if after in (0, len(self._times_s)):
            return 0.0
        length_s = self._times_s[after] - self._times_s[after - 1]
        return (self._counts[after] - self._counts[after - 1]) / length_s

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self.by(to_s) - self.by(from_s)

    def next_turn_s(self, at_s: float) -> float:
        after = bisect_right(self._times_s, at_s)
        return math.inf if after == len(self._times_s) else self._times_s[after]

    def describe(self) -> str:
        return "the results of the upstream operator"


STEP_S = 0.25
"""Results reach the next job in steps of this length: tasks emit results while they work."""


class BatchNetwork:
    """A kernel with a micro-batch job for each operator.

    - ``service_rates_per_s``: records per second that one instance of each operator processes
    - ``late_after_s``: the end-to-end bound; operators without downstream count results later than this as late
    - ``own_late_after_s``: operators with a bound of their own, which count by that instead

    >>> from headgate.workloads import parse_workload
    >>> chain = Topology.of(("parse", "sum"))
    >>> network = BatchNetwork(parse_workload("constant:10"), {"parse": 50, "sum": 50}, chain, late_after_s=60.0)
    >>> network.advance(60.0)
    >>> round(network.done("sum")), network.late("sum")
    (500, 0.0)
    """

    def __init__(
        self,
        workload: Workload,
        service_rates_per_s: Mapping[str, float],
        topology: Topology,
        model: MicroBatch | None = None,
        *,
        ready: int = 1,
        seed: int = 0,
        late_after_s: float,
        own_late_after_s: Mapping[str, float] | None = None,
    ) -> None:
        self._topology = topology
        self._workload = workload
        self._late_after_s = late_after_s
        self._own = dict(own_late_after_s or {})
        self._given = {name: Relayed() for name in topology.operators}
        self._late = dict.fromkeys(topology.operators, 0.0)
        self._done = dict.fromkeys(topology.operators, 0.0)
        self._relayed = dict.fromkeys(topology.operators, 0.0)
        self._jobs: dict[str, MicroBatchJob] = {}
        for place, name in enumerate(topology.order):
            upstream = topology.upstream(name)
            if len(upstream) > 1:
                raise InputError(f"operator {name!r} reads from {', '.join(upstream)}; one is possible here.")
            job = MicroBatchJob(
                self._given[upstream[0]] if upstream else workload,
                service_rates_per_s[name],
                model,
                ready=ready,
                seed=seed + place,
                readings=ReadingMode.KAFKA,
                late_after_s=self._own.get(name),
            )
            job.on_batch = self._count(name)
            self._jobs[name] = job

    def _count(self, name: str) -> Callable[[Instant, float], None]:
        def ended(at_s: Instant, records: float) -> None:
            overdue = self._workload.arrivals(0.0, max(0.0, at_s - self._late_after_s))
            self._late[name] += min(max(0.0, overdue - self._done[name]), records)
            self._done[name] += records

        return ended

    @property
    def now_s(self) -> Instant:
        return next(iter(self._jobs.values())).now_s

    @property
    def topology(self) -> Topology:
        return self._topology

    def done(self, operator: str) -> float:
        """Return the records that an operator has processed."""
        return self._done[operator]

    def late(self, operator: str) -> float:
        """Return the processed records that were late end to end."""
        return self._late[operator]

    def ready(self, operator: str) -> int:
        return self._jobs[operator].ready(OPERATOR)

    def advance(self, to_s: Instant) -> None:
        while (now_s := self.now_s) < to_s:
            until_s = min(to_s, now_s + STEP_S)
            # In topological order: the input of a job at a moment is known once its upstream jobs have reached it.
            for name, job in self._jobs.items():
                job.advance(until_s)
                self._given[name].give(until_s, job.done() - self._relayed[name])
                self._relayed[name] = job.done()

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        return self._jobs[operator].resize(OPERATOR, ready, lost=lost)

    def warmed(self, operator: str) -> Sequence[Warmed]:
        return self._jobs[operator].warmed(OPERATOR)

    def samples(self) -> Mapping[str, Sample]:
        return {name: self._sample(name, job.samples()[OPERATOR]) for name, job in self._jobs.items()}

    def _sample(self, name: str, sample: Sample) -> Sample:
        is_end = not self._topology.downstream(name)
        late = sample.late if name in self._own else self._late[name] if is_end else None
        return replace(sample, operator=name, late=late)
