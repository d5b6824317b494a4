"""The fluid queue model: λ records per second arrive, each ready instance serves μ, the rest waits.

Time is not stepped: between two events the backlog is the integral of arrivals minus service, and the moments at which
a queue overflows or runs empty are found exactly. A rate of 10/s against one instance of 5/s gives a backlog of
exactly 300 at 60 s.

A network has one queue per operator. Results of an operator arrive at each downstream operator in full; sources get
the workload. Every stream is piecewise ``constant + share · workload``, which allows an exact solution for any graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headgate.core.course import Course
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample, quickly
from headgate.simulation.contract import READING_DIGITS, Warmed, require_service_rate
from headgate.simulation.station import MOST_RETAINED, Station
from headgate.simulation.stream import Piece, merged
from headgate.workloads.contract import Workload

_sample = quickly(Sample)


class QueueNetwork:
    """A kernel of fluid queues: one operator called ``job``, or one per operator of a topology.

    ``service_rate_per_s`` is that of one instance, for all operators or by name. Records not done after
    ``late_after_s`` at an operator count as late there. Beyond ``most_retained`` phases in which records waited, the
    older half is settled (``settled.py``).

    >>> from headgate.workloads import parse_workload
    >>> queue = QueueNetwork(parse_workload("constant:10"), 5.0)
    >>> queue.advance(60.0)
    >>> queue.samples()["job"].backlog, queue.samples()["job"].latency_s
    (300.0, 30.0)
    """

    def __init__(
        self,
        workload: Workload,
        service_rate_per_s: float | Mapping[str, float],
        *,
        topology: Topology | None = None,
        ready: int = 1,
        late_after_s: float | None = None,
        most_retained: int = MOST_RETAINED,
    ) -> None:
        self._topology = topology or Topology.single()
        self._workload = workload
        self._counts_late = late_after_s is not None
        self._now_s = 0.0
        self._samples: dict[str, Sample] = {}
        self._stations = {}
        for name in self._topology.order:
            rate = service_rate_per_s[name] if isinstance(service_rate_per_s, Mapping) else service_rate_per_s
            require_service_rate(name, rate)
            self._stations[name] = Station(workload, rate, ready, late_after_s, most_retained=most_retained)
        self._upstream = {name: self._topology.upstream(name) for name in self._topology.order}
        self._read_s = 0.0
        self._resized_s: dict[str, Instant] = {}
        """When the size of an operator first changed after its last reading."""
        self._joined: dict[str, list[Warmed]] = {name: [] for name in self._topology.order}

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._topology

    def ready(self, operator: str) -> int:
        return self._stations[operator].ready

    def arrived(self, operator: str) -> float:
        """Return the records that have arrived at an operator since the start."""
        return self._stations[operator].arrivals.count

    def processed(self, operator: str) -> float:
        """Return the records that an operator has processed since the start."""
        return self._stations[operator].processed

    def advance(self, to_s: Instant) -> None:
        workload = self._workload
        while (from_s := self._now_s) < to_s:
            turn_s = workload.next_turn_s(from_s)
            until_s = min(to_s, turn_s)
            rate = workload.rate_per_s(from_s)
            # Compare at the next turn, not at until_s: within a very short time every load is flat.
            flat_until_s = turn_s if turn_s < math.inf else until_s
            is_flat = rate == workload.rate_per_s(math.nextafter(flat_until_s, from_s))
            offered = [Piece(until_s, rate, 0.0) if is_flat else Piece(until_s, 0.0, 1.0)]
            done: dict[str, list[Piece]] = {}
            for name, station in self._stations.items():
                upstream = self._upstream[name]
                stream = merged(from_s, [done[source] for source in upstream]) if upstream else offered
                done[name] = station.serve(from_s, stream)
            self._now_s = until_s

    def advance_through(self, times_s: Sequence[Instant]) -> None:
        """Advance to each of some rising times in turn, with the same result as by as many calls.

        Sums of arrivals depend on the steps in their last bits, so none may be left out.
        """
        only = next(iter(self._stations.values())) if len(self._stations) == 1 else None
        place = 0
        while place < len(times_s):
            self.advance(times_s[place])
            place += 1
            if only is not None and (passed := only.stay_idle(times_s, place)) > place:
                place, self._now_s = passed, times_s[passed - 1]

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        station, now = self._stations[operator], self._now_s
        leaving, station.ready = station.ready - ready, ready
        if now > self._read_s:
            self._resized_s.setdefault(operator, now)
        first_task_s = now + 1 / station.service_rate_per_s
        self._joined[operator] += [Warmed(now, first_task_s, first_task_s)] * -leaving
        # Work is a fluid: a leaving instance has nothing to finish.
        return [now] * leaving

    def warmed(self, operator: str) -> Sequence[Warmed]:
        joined = self._joined[operator]
        if not joined:
            return ()
        found = [instance for instance in joined if instance.warm_s is not None and instance.warm_s <= self._now_s]
        self._joined[operator] = joined[len(found) :]
        return found

    def samples(self) -> Mapping[str, Sample]:
        if not self._samples or self._now_s > self._read_s:
            self._samples = {name: self._sample(name, station) for name, station in self._stations.items()}
            self._read_s = self._now_s
            self._resized_s.clear()
        return self._samples

    def _sample(self, name: str, station: Station) -> Sample:
        before, now = self._samples.get(name), self._now_s
        oldest_s = station.oldest_s()
        waits_s = 0.0 if oldest_s is None else round(now - oldest_s, READING_DIGITS)
        busy_s = station.processed / station.service_rate_per_s
        # Rounding is slow: skip it for 0 and for values that are rounded already.
        count, processed, late, backlog = station.arrivals.count, station.processed, station.late, station.backlog
        arrived = round(count, READING_DIGITS)
        done = arrived if processed == count else round(processed, READING_DIGITS)
        return _sample(
            operator=name,
            at_s=now,
            arrived=arrived,
            done=done,
            emitted=done,
            late=(late and round(late, READING_DIGITS)) if self._counts_late else None,
            busy_s=busy_s,
            available_s=station.available_s,
            backlog=backlog and round(backlog, READING_DIGITS),
            latency_s=waits_s,
            processed_rate_per_s=self._processed_rate_per_s(station, before),
            processing_time_s=1 / station.service_rate_per_s,
            scheduling_delay_s=waits_s,
            # A change at the moment of the reading did not affect the measured span.
            warming=self._resized_s.get(name, now) < now,
        )

    def _processed_rate_per_s(self, station: Station, before: Sample | None) -> float | None:
        """Return the throughput of the instances present since the previous reading; ``None`` if they did nothing."""
        done, available_s = (0.0, 0.0) if before is None else (before.done or 0.0, before.available_s or 0.0)
        more = station.processed - done
        if self._now_s <= self._read_s or (more < 1 and round(more, READING_DIGITS) <= 0):
            return None
        mean_ready = (station.available_s - available_s) / (self._now_s - self._read_s)
        return round(mean_ready * station.service_rate_per_s, READING_DIGITS)

    @property
    def retained(self) -> int:
        """How many phases and points are stored for what is not settled or waits."""
        return sum(station.retained for station in self._stations.values())

    def course(self, operator: str) -> Course:
        """Return what truly happened to an operator until now."""
        return self._stations[operator].course(self._now_s)
