"""The samples of a job's operators, computed from snapshots without any request to Flink.

Counters continue over restarts. The demand on an operator, the records that wait for it and for how long are computed
over the whole graph (``demand.py``, ``bottleneck.py``, ``latency.py``); docs/decisions/0023 says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.engines.flink.bottleneck import (
    NOTHING,
    StreamRatios,
    TimeShares,
    bottleneck_of,
    records_in_flight,
    waiting_by_bottleneck,
)
from headgate.engines.flink.demand import OperatorDemand, PendingRecords, withheld
from headgate.engines.flink.graph import Graph
from headgate.engines.flink.latency import ArrivalHistory, LatencyTracker, waits_by_operator_s
from headgate.engines.flink.snapshot import JobSnapshot
from headgate.engines.flink.work_counts import SkewMeter, WorkCounts, WorkDone

LEAST_BUSY_S = 0.005
"""Busy time below this is too little to measure: it is taken as this much, a lower bound of the rate."""
LEAST_KNOWN_S = 3.0
"""The shortest span from which that lower bound is taken."""
READS_WITHIN_S = 10.0
"""A source that has read nothing for this long after the first snapshot has nothing to read."""
LEAST_COVERED = 0.5
"""Metrics that cover less than this share of the time since the previous reading are the previous metrics."""
IN_FLIGHT_S = 0.5
"""How long records seem to wait in a job that keeps up, since they pass buffers and the counts of written and read
records are not of the same moment. Such a job must not look like one that works off a queue."""
REPEATS_FOR_S = 2.0
"""A restarted source reads the records since the last checkpoint again, and reports them as waiting only when it has
begun to: compared with the reading before, they would count as new arrivals."""
WARM_AFTER_S = 5.0
"""How long after a restart subtasks are slower than usual."""
RECENT_S = 10.0
"""The span over which rates and time shares are measured. Flink counts an idle or backpressured spell only when it
ends, or after five seconds, so shorter spans may miss any part of it."""


@dataclass(frozen=True)
class _SnapshotValues:
    """Values of one snapshot, to be compared with the next."""

    at_s: Instant
    counted: Mapping[str, WorkDone]
    waiting: Mapping[str, float]
    """Records in front of each operator; for a source, outside the job."""
    is_repeating: bool
    """Whether the job had just restarted."""
    is_warm: bool


class SampleBuilder:
    """Computes the samples of one job.

    ``late_after_s`` is how old a record may be when it has passed the last operator.
    """

    def __init__(self, topology: Topology, late_after_s: float | None = None) -> None:
        self._topology = topology
        self._counts = {name: WorkCounts() for name in topology.operators}
        self._ratios = StreamRatios(topology)
        self._demand = OperatorDemand(topology)
        self._pending = PendingRecords()
        self._latency = LatencyTracker(topology, late_after_s)
        self._skew = SkewMeter()
        self._given = dict.fromkeys(topology.operators, 0.0)
        self._curves = {name: ArrivalHistory() for name in topology.operators}
        """Arrivals at each operator: at a source from outside, at others from upstream."""
        self._life: tuple[str, int] | None = None
        self._runs = 0
        self._first_look_s: Instant | None = None
        self._before: _SnapshotValues | None = None
        self._recent: list[_SnapshotValues] = []
        """Readings of the current run, the oldest first."""
        self._samples: dict[str, Sample] = {}

    def take(self, snapshot: JobSnapshot, graph: Graph) -> dict[str, Sample]:
        """Return the samples of this moment; none while the job is not working."""
        if not snapshot.is_ready:
            return {}
        before = self._before
        if before is not None and snapshot.at_s <= before.at_s:
            return self._samples
        is_new = snapshot.job.life != self._life
        if is_new:
            self._begin_run(snapshot)
        since = before if is_new else self._since(snapshot.at_s)
        now, shares = self._read(snapshot, graph, since)
        if before is not None and not is_new and _is_unchanged(before, now, graph.sizes(snapshot.job)):
            return {}
        if before is None and self._is_just_starting(snapshot, now):
            return {}
        open_sources = {name for name, source in snapshot.sources.items() if source.pending is None}
        if before is None:
            self._demand.begin(now.waiting)
            self._given |= now.waiting
        elif is_new:
            self._continue_after_restart(before, now)
        else:
            self._follow(before, now, shares, open_sources)
        for name, curve in self._curves.items():
            curve.add(now.at_s, self._demand.arrived[name] if name in snapshot.sources else self._given[name])
        self._before = now
        self._recent.append(now)
        self._samples = self._made(snapshot, before, None if is_new else since, now, shares, open_sources)
        return self._samples

    def _since(self, now: Instant) -> _SnapshotValues | None:
        """Return the oldest recent reading to compare with, if possible one taken after the job's warm-up."""
        self._recent = [reading for reading in self._recent[:-1] if now - reading.at_s <= RECENT_S] + self._recent[-1:]
        return next((reading for reading in self._recent if reading.is_warm), next(iter(self._recent), None))

    def _is_just_starting(self, snapshot: JobSnapshot, now: _SnapshotValues) -> bool:
        """Return whether sources may not report yet: before its first record, a source reports that nothing waits."""
        if self._first_look_s is None:
            self._first_look_s = snapshot.at_s
        nothing_yet = not any(now.counted[name].done or now.waiting.get(name) for name in snapshot.sources)
        return nothing_yet and snapshot.at_s - self._first_look_s < READS_WITHIN_S

    def end_to_end_s(self) -> float | None:
        """Return how long the oldest record has waited on the slowest path through the job."""
        return self._latency.longest_s(self._samples)

    def _begin_run(self, snapshot: JobSnapshot) -> None:
        if self._life is not None:
            for counts in self._counts.values():
                counts.restart()
        self._life, self._runs = snapshot.job.life, self._runs + 1
        self._skew.restart()
        self._pending.restart()
        self._recent = []

    def _read(
        self, snapshot: JobSnapshot, graph: Graph, since: _SnapshotValues | None
    ) -> tuple[_SnapshotValues, dict[str, TimeShares]]:
        raw = {name: vertex.metrics for name, vertex in graph.vertices(snapshot.job).items()}
        # Flink counts as read only what comes from other vertices.
        read = {
            name: raw[name].written if source.read is None else source.read for name, source in snapshot.sources.items()
        }
        flows = {name: work.written for name, work in raw.items()}, {name: work.read for name, work in raw.items()}
        pending = {name: source.pending for name, source in snapshot.sources.items()}
        to_do = records_in_flight(self._topology, *flows, {}) | pending
        counted = {
            name: self._counts[name].at(work, read.get(name), has_work=to_do[name] != 0) for name, work in raw.items()
        }
        shares = _shares(None if since is None else since.counted, counted)
        waiting = records_in_flight(self._topology, *flows, shares)
        is_repeating = self._runs > 1 and _running_s(snapshot) < REPEATS_FOR_S
        if is_repeating:
            self._pending.restart()
        for name, records in pending.items():
            if records is not None:
                waiting[name] = self._pending.at(name, snapshot.at_s, counted[name].done, records)
        return _SnapshotValues(
            snapshot.at_s, counted, waiting, is_repeating, _running_s(snapshot) >= WARM_AFTER_S
        ), shares

    def _continue_after_restart(self, before: _SnapshotValues, now: _SnapshotValues) -> None:
        """Count over a restart between the two readings: records between operators then were read again."""
        self._demand.extrapolate(now.at_s - before.at_s)
        for name, counted in now.counted.items():
            self._given[name] += counted.done - before.counted[name].done + now.waiting.get(name, 0.0)

    def _follow(
        self,
        before: _SnapshotValues,
        now: _SnapshotValues,
        shares: Mapping[str, TimeShares],
        open_sources: Collection[str],
    ) -> None:
        elapsed_s = now.at_s - before.at_s
        done = {name: count.done - before.counted[name].done for name, count in now.counted.items()}
        written = {name: count.written - before.counted[name].written for name, count in now.counted.items()}
        more_wait = {name: records - before.waiting.get(name, records) for name, records in now.waiting.items()}
        given = {name: max(0.0, done[name] + more) for name, more in more_wait.items()}
        self._ratios.add(elapsed_s, done, given, written)
        for name, records in given.items():
            self._given[name] += records
        if before.is_repeating:
            self._demand.extrapolate(elapsed_s)
            return
        if not self._pending.is_known:
            self._demand.skip(elapsed_s)
            return
        more_wait |= {name: withheld(done[name], shares[name].backpressured) for name in open_sources}
        self._demand.add(elapsed_s, done, more_wait, self._ratios.all())

    def _made(
        self,
        snapshot: JobSnapshot,
        before: _SnapshotValues | None,
        since: _SnapshotValues | None,
        now: _SnapshotValues,
        shares: Mapping[str, TimeShares],
        open_sources: Collection[str],
    ) -> dict[str, Sample]:
        elapsed_s = 0.0 if since is None else now.at_s - since.at_s
        ratios = self._ratios.all()
        backlogs = waiting_by_bottleneck(self._topology, shares, ratios, now.waiting)
        latencies_s = self._latencies_s(before, now, shares, ratios)
        is_warming = not now.is_warm or (since is None and before is not None)
        samples = {}
        for name, counted in now.counted.items():
            earlier = None if since is None else since.counted[name]
            true_per_s = None if earlier is None else _true_rate(earlier, counted, elapsed_s)
            # What waits at such a source is unknown, so what waits for it is unknown too.
            is_open = name in open_sources
            latency_s = None if is_open else latencies_s[name]
            samples[name] = Sample(
                operator=name,
                at_s=now.at_s,
                age_s=snapshot.age_s,
                arrived=None if is_open or not self._demand.is_known else self._demand.arrived[name],
                given=None if name in snapshot.sources else self._given[name],
                done=counted.done,
                emitted=counted.written / max(1, len(self._topology.downstream(name))),
                busy_s=counted.busy_s,
                available_s=counted.available_s,
                backlog=None if is_open else backlogs[name],
                latency_s=latency_s,
                useful_instances=snapshot.sources[name].partitions if name in snapshot.sources else None,
                skew=self._skew.skew(name, snapshot.subtasks.get(name, ())),
                input_rate_per_s=self._demand.rates_per_s[name] if is_open and earlier is not None else None,
                processed_rate_per_s=true_per_s,
                processing_time_s=None if not true_per_s else _instances(earlier, counted, elapsed_s) / true_per_s,
                scheduling_delay_s=None if latency_s is None else max(0.0, latency_s - IN_FLIGHT_S),
                warming=is_warming,
            )
        return self._latency.with_late_records(samples)

    def _latencies_s(
        self,
        before: _SnapshotValues | None,
        now: _SnapshotValues,
        shares: Mapping[str, TimeShares],
        ratios: Mapping[tuple[str, str], float],
    ) -> dict[str, float | None]:
        """Return how long records have waited for each operator."""
        own_waits_s: dict[str, float | None] = {}
        for name, records in now.waiting.items():
            done_per_s = 0.0
            if before is not None:
                done_per_s = (now.counted[name].done - before.counted[name].done) / (now.at_s - before.at_s)
            arrived = self._curves[name].newest - records
            own_waits_s[name] = self._curves[name].age_s(now.at_s, arrived, done_per_s) if records > 0 else 0.0
        bottlenecks = {name: bottleneck_of(self._topology, shares, ratios, name)[0] for name in now.waiting}
        return waits_by_operator_s(self._topology, own_waits_s, bottlenecks)


def _running_s(snapshot: JobSnapshot) -> float:
    """Return how long the current run of the job has lasted."""
    return (snapshot.job.now_ms - snapshot.job.life[1]) / 1000


def _is_unchanged(before: _SnapshotValues, now: _SnapshotValues, sizes: Mapping[str, int]) -> bool:
    """Return whether Flink answered with its previous metrics: then subtasks had less time than has passed."""
    had_s = could_s = 0.0
    for name, counted in now.counted.items():
        earlier = before.counted[name].available_s
        if counted.available_s is not None and earlier is not None:
            had_s += counted.available_s - earlier
            could_s += sizes[name] * (now.at_s - before.at_s)
    return had_s < LEAST_COVERED * could_s


def _shares(before: Mapping[str, WorkDone] | None, now: Mapping[str, WorkDone]) -> dict[str, TimeShares]:
    """Return how operators spent their time since the previous reading, or since their start."""
    return {name: _share(None if before is None else before[name], count) for name, count in now.items()}


def _share(before: WorkDone | None, now: WorkDone) -> TimeShares:
    if now.busy_s is None or now.available_s is None:
        return NOTHING
    backpressured_s, busy_s, available_s = now.backpressured_s, now.busy_s, now.available_s
    if before is not None and before.busy_s is not None and before.available_s is not None:
        backpressured_s -= before.backpressured_s
        busy_s -= before.busy_s
        available_s -= before.available_s
    return TimeShares(busy_s / available_s, backpressured_s / available_s) if available_s > 0 else NOTHING


def _true_rate(before: WorkDone, now: WorkDone, elapsed_s: float) -> float | None:
    """Return the records per second that all subtasks process while they are busy."""
    if now.busy_s is None or before.busy_s is None or elapsed_s <= 0:
        return None
    busy_s, done = now.busy_s - before.busy_s, now.done - before.done
    if done <= 0 or (busy_s < LEAST_BUSY_S and elapsed_s < LEAST_KNOWN_S):
        return None
    return done / max(busy_s, LEAST_BUSY_S) * _instances(before, now, elapsed_s)


def _instances(before: WorkDone | None, now: WorkDone, elapsed_s: float) -> float:
    """Return the number of subtasks, given by their time."""
    if before is None or now.available_s is None or before.available_s is None or elapsed_s <= 0:
        return 1.0
    return max(1.0, round((now.available_s - before.available_s) / elapsed_s))
