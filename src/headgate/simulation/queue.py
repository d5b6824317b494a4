"""The plain queue model: λ records per second arrive, each ready instance serves μ, the rest waits.

Records are a fluid and nothing is stepped: between two events the backlog is the integral of arrivals minus service,
and the moments at which a queue overflows or runs empty are found exactly. A rate of 10/s against one instance of 5/s
gives a backlog of 300 at 60 s and not a record more or less.

A network is such a queue per operator. What one operator gets done arrives at those downstream of it, a full copy at
each; sources get the workload. Every stream is then, piece by piece, ``constant + share · workload``, which is
what makes the exact solution possible for any graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.simulation.contract import READING_DIGITS, require_service_rate
from headgate.simulation.search import first_time_s
from headgate.workloads.contract import Workload


class _Piece(NamedTuple):
    """A stream until a time: a constant rate plus a multiple of the workload's. Within a piece it does not turn."""

    until_s: float
    constant_per_s: float
    share: float

    def rate_per_s(self, workload: Workload, at_s: float) -> float:
        return self.constant_per_s + self.share * workload.rate_per_s(at_s) if self.share else self.constant_per_s

    def arrivals(self, workload: Workload, from_s: float, to_s: float) -> float:
        constant = self.constant_per_s * (to_s - from_s)
        return constant + self.share * workload.arrivals(from_s, to_s) if self.share else constant


class _Station:
    """One operator: a queue in front of its ready instances."""

    def __init__(self, service_rate_per_s: float, ready: int) -> None:
        self.service_rate_per_s = service_rate_per_s
        self.ready = ready
        self.backlog = 0.0
        self.arrived = 0.0
        self.processed = 0.0
        self.begin_period(0.0)

    @property
    def capacity_per_s(self) -> float:
        return self.ready * self.service_rate_per_s

    def begin_period(self, at_s: Instant) -> None:
        """Start to count for the next reading."""
        self.period_start_s = at_s
        self.period_arrived = 0.0
        self.period_processed = 0.0
        self.period_capacity = 0.0
        self.resized_s: Instant | None = None

    def serve(self, workload: Workload, from_s: float, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Take in a stream and give the stream of what gets done."""
        done = []
        at_s = from_s
        for piece in pieces:
            while at_s < piece.until_s:
                done.append(self._serve_phase(workload, at_s, piece))
                at_s = done[-1].until_s
        self.period_capacity += self.capacity_per_s * (at_s - from_s)
        return done

    def _serve_phase(self, workload: Workload, from_s: float, piece: _Piece) -> _Piece:
        """Serve for as long as the queue stays empty, or stays filled, within one piece of the stream."""
        capacity = self.capacity_per_s
        rate = piece.rate_per_s(workload, from_s)
        # Just before its end, because at its end a piece may jump to the rate of the next one.
        last_rate = piece.rate_per_s(workload, math.nextafter(piece.until_s, from_s)) if piece.share else rate
        if self.backlog == 0 and (rate < capacity or rate == capacity >= last_rate):
            until_s = piece.until_s
            if last_rate > capacity:
                until_s = first_time_s(lambda s: piece.rate_per_s(workload, s) > capacity, from_s, until_s)
            arrived = piece.arrivals(workload, from_s, until_s)
            self._count(arrived, arrived)
            return _Piece(until_s, piece.constant_per_s, piece.share)
        until_s, runs_empty = self._busy_until(workload, from_s, piece, (rate, last_rate))
        arrived = piece.arrivals(workload, from_s, until_s)
        processed = self.backlog + arrived if runs_empty else capacity * (until_s - from_s)
        self.backlog = 0.0 if runs_empty else self.backlog + arrived - processed
        self._count(arrived, processed)
        return _Piece(until_s, capacity, 0.0)

    def _busy_until(
        self, workload: Workload, from_s: float, piece: _Piece, rates: tuple[float, float]
    ) -> tuple[float, bool]:
        """When a queue that is filling or filled runs empty, or the end of the piece if it does not."""
        capacity = self.capacity_per_s
        rate, last_rate = rates
        if rate == last_rate:
            empty_s = from_s + self.backlog / (capacity - rate) if rate < capacity else math.inf
            return (empty_s, True) if empty_s <= piece.until_s else (piece.until_s, False)

        def is_empty(at_s: float) -> bool:
            return self.backlog + piece.arrivals(workload, from_s, at_s) < capacity * (at_s - from_s)

        lowest_s = piece.until_s
        if rate < capacity < last_rate:
            # The queue shrinks until the rising rate has reached the capacity: now or never.
            lowest_s = first_time_s(lambda s: piece.rate_per_s(workload, s) > capacity, from_s, lowest_s)
        if is_empty(lowest_s):
            return first_time_s(is_empty, from_s, lowest_s), True
        return piece.until_s, False

    def _count(self, arrived: float, processed: float) -> None:
        self.arrived += arrived
        self.processed += processed
        self.period_arrived += arrived
        self.period_processed += processed


class QueueNetwork:
    """A kernel of fluid queues: one operator called ``job``, or one per operator of a topology.

    ``service_rate_per_s`` is what one instance serves, for all operators or by name.

    >>> from headgate.workloads import parse_workload
    >>> queue = QueueNetwork(parse_workload("constant:10"), 5.0)
    >>> queue.advance(60.0)
    >>> queue.samples()["job"].backlog, queue.samples()["job"].latency_s
    (300.0, 60.2)
    """

    def __init__(
        self,
        workload: Workload,
        service_rate_per_s: float | Mapping[str, float],
        *,
        topology: Topology | None = None,
        ready: int = 1,
    ) -> None:
        self._topology = topology or Topology.single()
        self._workload = workload
        self._now_s = 0.0
        self._samples: dict[str, Sample] = {}
        self._stations = {}
        for name in self._topology.order:
            rate = service_rate_per_s[name] if isinstance(service_rate_per_s, Mapping) else service_rate_per_s
            require_service_rate(name, rate)
            self._stations[name] = _Station(rate, ready)
        self._upstream = {name: self._topology.upstream(name) for name in self._topology.order}

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._topology

    def ready(self, operator: str) -> int:
        return self._stations[operator].ready

    def arrived(self, operator: str) -> float:
        """Records that have come to an operator since the start."""
        return self._stations[operator].arrived

    def processed(self, operator: str) -> float:
        """Records that an operator has got done since the start."""
        return self._stations[operator].processed

    def advance(self, to_s: Instant) -> None:
        workload = self._workload
        while (from_s := self._now_s) < to_s:
            until_s = min(to_s, workload.next_turn_s(from_s))
            rate = workload.rate_per_s(from_s)
            is_flat = rate == workload.rate_per_s(math.nextafter(until_s, from_s))
            offered = [_Piece(until_s, rate, 0.0) if is_flat else _Piece(until_s, 0.0, 1.0)]
            done: dict[str, list[_Piece]] = {}
            for name, station in self._stations.items():
                upstream = self._upstream[name]
                stream = _merged(from_s, [done[source] for source in upstream]) if upstream else offered
                done[name] = station.serve(workload, from_s, stream)
            self._now_s = until_s

    def resize(self, operator: str, ready: int) -> None:
        station = self._stations[operator]
        if station.resized_s is None and station.period_start_s < self._now_s:
            station.resized_s = self._now_s
        station.ready = ready

    def samples(self) -> Mapping[str, Sample]:
        if not self._samples or self._now_s > next(iter(self._samples.values())).at_s:
            self._samples = {name: self._sample(name, station) for name, station in self._stations.items()}
        return self._samples

    def _sample(self, name: str, station: _Station) -> Sample:
        elapsed_s = self._now_s - station.period_start_s
        capacity = station.capacity_per_s
        backlog = round(station.backlog, READING_DIGITS)
        service_s = 1 / station.service_rate_per_s
        waits_s = backlog / capacity if capacity else None
        input_rate = self._workload.rate_per_s(self._now_s) if not self._upstream[name] else None
        processed_rate = utilization = None
        if elapsed_s > 0:
            input_rate = round(station.period_arrived / elapsed_s, READING_DIGITS)
            # What was never busy has shown no rate.
            if station.period_processed > 0:
                mean_capacity = station.period_capacity / elapsed_s if station.resized_s is not None else capacity
                processed_rate = round(mean_capacity, READING_DIGITS)
            if station.period_capacity > 0:
                utilization = min(1.0, station.period_processed / station.period_capacity)
        sample = Sample(
            operator=name,
            at_s=self._now_s,
            input_rate_per_s=input_rate,
            processed_rate_per_s=processed_rate,
            backlog=backlog,
            latency_s=None if waits_s is None else waits_s + service_s,
            processing_time_s=service_s,
            scheduling_delay_s=waits_s,
            utilization=utilization,
            # A change at the very moment of the reading has not touched what was read.
            warming=station.resized_s is not None and station.resized_s < self._now_s,
        )
        station.begin_period(self._now_s)
        return sample


def _merged(from_s: float, streams: Sequence[list[_Piece]]) -> list[_Piece]:
    """The sum of streams that all end at the same time."""
    if len(streams) == 1:
        return streams[0]
    merged = []
    positions = [0] * len(streams)
    at_s = from_s
    end_s = streams[0][-1].until_s
    while at_s < end_s:
        pieces = [stream[position] for stream, position in zip(streams, positions, strict=True)]
        at_s = min(piece.until_s for piece in pieces)
        merged.append(_Piece(at_s, sum(piece.constant_per_s for piece in pieces), sum(piece.share for piece in pieces)))
        positions = [position + (piece.until_s <= at_s) for position, piece in zip(positions, pieces, strict=True)]
    return merged
