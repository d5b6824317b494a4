"""Readings of a job's operators, made from looks at it. Nothing is asked of Flink here.

What is counted goes on over restarts. What is asked of an operator, what waits because of it and how long that has
waited are worked out over the whole graph (``demand.py``, ``blame.py``); see docs/decisions/0023 for why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.engines.flink.ages import Curve, waits_s
from headgate.engines.flink.between import StreamRatios, in_flight
from headgate.engines.flink.blame import NOTHING, Shares, blamed, culprit
from headgate.engines.flink.counters import Counted, WorkCounts
from headgate.engines.flink.demand import Demand, withheld
from headgate.engines.flink.graph import Graph
from headgate.engines.flink.lateness import Lateness
from headgate.engines.flink.looking import Look
from headgate.engines.flink.pending import Pending
from headgate.engines.flink.skew import Spread

LEAST_BUSY_S = 0.005
"""Less busy time than this says only that an operator is at least as fast as if it were so much."""
LEAST_KNOWN_S = 3.0
"""And that only if it is known of so long."""
READS_WITHIN_S = 10.0
"""A source that has read nothing for this long after the first look has nothing to read."""
LEAST_TOLD = 0.5
"""Metrics must tell of at least this share of the time since the reading before, or they are those of before."""
IN_FLIGHT_S = 0.5
"""So long records seem to wait in a job that keeps up: they lie in buffers for a moment, and what was written and read
is not told of the same moment. A job at rest must not look like one that works off a queue."""
REPEATS_FOR_S = 2.0
"""A source that was started again reads what came since the last checkpoint once more, and only when it has begun to
tells how much of that waits: compared with a reading before that, it would count as if it had just come."""
WARM_AFTER_S = 5.0
"""How long after a restart subtasks are slower than usual."""
LATELY_S = 10.0
"""How fast operators are and what holds them back is told of about so long. Flink counts time that was not spent at
work only when that ends, or after five seconds: of a shorter while, any part may be missing."""


@dataclass(frozen=True)
class _Read:
    """What was made of a look, to be compared with the next one."""

    at_s: Instant
    counted: Mapping[str, Counted]
    waiting: Mapping[str, float]
    """Records in front of each operator; of a source those that wait outside."""
    is_repeating: bool
    """Whether the job had just been started again."""
    is_warm: bool


class Readings:
    """Makes the readings of one job.

    ``late_after_s`` is how old a record may be when it has passed the last operator.
    """

    def __init__(self, topology: Topology, late_after_s: float | None = None) -> None:
        self._topology = topology
        self._counts = {name: WorkCounts() for name in topology.operators}
        self._ratios = StreamRatios(topology)
        self._demand = Demand(topology)
        self._pending = Pending()
        self._lateness = Lateness(topology, late_after_s)
        self._spread = Spread()
        self._given = dict.fromkeys(topology.operators, 0.0)
        self._curves = {name: Curve() for name in topology.operators}
        """Of what came to where it waits: to a source from outside, to others from those before them."""
        self._life: tuple[str, int] | None = None
        self._lives = 0
        self._first_look_s: Instant | None = None
        self._before: _Read | None = None
        self._lately: list[_Read] = []
        """Those of this life of the job that are compared with, the oldest first."""
        self._samples: dict[str, Sample] = {}

    def take(self, look: Look, graph: Graph) -> dict[str, Sample]:
        """The readings of this moment; none while the job is not at work."""
        if not look.is_ready:
            return {}
        before = self._before
        if before is not None and look.at_s <= before.at_s:
            return self._samples
        is_new = look.job.life != self._life
        if is_new:
            self._begin_life(look)
        since = before if is_new else self._since(look.at_s)
        now, shares = self._read(look, graph, since)
        if before is not None and not is_new and _is_old_news(before, now, graph.sizes(look.job)):
            return {}
        if before is None and self._is_just_starting(look, now):
            return {}
        open_sources = {name for name, source in look.sources.items() if source.pending is None}
        if before is None:
            self._demand.begin(now.waiting)
            self._given |= now.waiting
        elif is_new:
            self._went_on(before, now)
        else:
            self._follow(before, now, shares, open_sources)
        for name, curve in self._curves.items():
            curve.add(now.at_s, self._demand.arrived[name] if name in look.sources else self._given[name])
        self._before = now
        self._lately.append(now)
        self._samples = self._made(look, before, None if is_new else since, now, shares, open_sources)
        return self._samples

    def _since(self, now: Instant) -> _Read | None:
        """The reading to compare with: the oldest of the last while, and none of a job that had just started."""
        self._lately = [one for one in self._lately[:-1] if now - one.at_s <= LATELY_S] + self._lately[-1:]
        return next((one for one in self._lately if one.is_warm), next(iter(self._lately), None))

    def _is_just_starting(self, look: Look, now: _Read) -> bool:
        """A source that has read nothing tells that nothing waits, whatever does: it would seem to come all at once."""
        if self._first_look_s is None:
            self._first_look_s = look.at_s
        nothing_yet = not any(now.counted[name].done or now.waiting.get(name) for name in look.sources)
        return nothing_yet and look.at_s - self._first_look_s < READS_WITHIN_S

    def end_to_end_s(self) -> float | None:
        """What the oldest record has waited on the slowest way through the job."""
        return self._lateness.longest_s(self._samples)

    def _begin_life(self, look: Look) -> None:
        if self._life is not None:
            for counts in self._counts.values():
                counts.begin_anew()
        self._life, self._lives = look.job.life, self._lives + 1
        self._spread.begin_anew()
        self._pending.begin_anew()
        self._lately = []

    def _read(self, look: Look, graph: Graph, since: _Read | None) -> tuple[_Read, dict[str, Shares]]:
        raw = {graph.by_vertex[one.id].operator: one.metrics for one in look.job.vertices if one.id in graph.by_vertex}
        # Flink counts as read only what comes from other vertices.
        read = {name: raw[name].written if one.read is None else one.read for name, one in look.sources.items()}
        flows = {name: work.written for name, work in raw.items()}, {name: work.read for name, work in raw.items()}
        pending = {name: source.pending for name, source in look.sources.items()}
        to_do = in_flight(self._topology, *flows, {}) | pending
        counted = {
            name: self._counts[name].at(work, read.get(name), has_work=to_do[name] != 0) for name, work in raw.items()
        }
        shares = _shares(None if since is None else since.counted, counted)
        waiting = in_flight(self._topology, *flows, shares)
        is_repeating = self._lives > 1 and _running_s(look) < REPEATS_FOR_S
        if is_repeating:
            self._pending.begin_anew()
        for name, records in pending.items():
            if records is not None:
                waiting[name] = self._pending.at(name, look.at_s, counted[name].done, records)
        return _Read(look.at_s, counted, waiting, is_repeating, _running_s(look) >= WARM_AFTER_S), shares

    def _went_on(self, before: _Read, now: _Read) -> None:
        """Between the two the job was started again: what lay between operators then was read once more."""
        self._demand.went_on(now.at_s - before.at_s)
        for name, counted in now.counted.items():
            self._given[name] += counted.done - before.counted[name].done + now.waiting.get(name, 0.0)

    def _follow(self, before: _Read, now: _Read, shares: Mapping[str, Shares], open_sources: Collection[str]) -> None:
        elapsed_s = now.at_s - before.at_s
        done = {name: one.done - before.counted[name].done for name, one in now.counted.items()}
        written = {name: one.written - before.counted[name].written for name, one in now.counted.items()}
        more_wait = {name: records - before.waiting.get(name, records) for name, records in now.waiting.items()}
        given = {name: max(0.0, done[name] + more) for name, more in more_wait.items()}
        self._ratios.add(elapsed_s, done, given, written)
        for name, records in given.items():
            self._given[name] += records
        if before.is_repeating:
            self._demand.went_on(elapsed_s)
            return
        if not self._pending.is_known:
            self._demand.missed(elapsed_s)
            return
        more_wait |= {name: withheld(done[name], shares[name].held_back) for name in open_sources}
        self._demand.add(elapsed_s, done, more_wait, self._ratios.all())

    def _made(
        self,
        look: Look,
        before: _Read | None,
        since: _Read | None,
        now: _Read,
        shares: Mapping[str, Shares],
        open_sources: Collection[str],
    ) -> dict[str, Sample]:
        elapsed_s = 0.0 if since is None else now.at_s - since.at_s
        ratios = self._ratios.all()
        backlogs = blamed(self._topology, shares, ratios, now.waiting)
        latencies_s = self._latencies_s(before, now, shares, ratios)
        is_warming = not now.is_warm or (since is None and before is not None)
        samples = {}
        for name, counted in now.counted.items():
            earlier = None if since is None else since.counted[name]
            true_per_s = None if earlier is None else _true_rate(earlier, counted, elapsed_s)
            # Nobody can tell what waits at such a source: what waits because of it is not known either.
            is_open = name in open_sources
            latency_s = None if is_open else latencies_s[name]
            samples[name] = Sample(
                operator=name,
                at_s=now.at_s,
                age_s=look.age_s,
                arrived=None if is_open or not self._demand.is_known else self._demand.arrived[name],
                given=None if name in look.sources else self._given[name],
                done=counted.done,
                emitted=counted.written / max(1, len(self._topology.downstream(name))),
                busy_s=counted.busy_s,
                available_s=counted.available_s,
                backlog=None if is_open else backlogs[name],
                latency_s=latency_s,
                useful_instances=look.sources[name].partitions if name in look.sources else None,
                skew=self._spread.skew(name, look.subtasks.get(name, ())),
                input_rate_per_s=self._demand.rates_per_s[name] if is_open and earlier is not None else None,
                processed_rate_per_s=true_per_s,
                processing_time_s=None if not true_per_s else _instances(earlier, counted, elapsed_s) / true_per_s,
                scheduling_delay_s=None if latency_s is None else max(0.0, latency_s - IN_FLIGHT_S),
                warming=is_warming,
            )
        return self._lateness.counted(samples)

    def _latencies_s(
        self, before: _Read | None, now: _Read, shares: Mapping[str, Shares], ratios: Mapping[tuple[str, str], float]
    ) -> dict[str, float | None]:
        """What records have waited because of each operator."""
        ages_s: dict[str, float | None] = {}
        for name, records in now.waiting.items():
            done_per_s = 0.0
            if before is not None:
                done_per_s = (now.counted[name].done - before.counted[name].done) / (now.at_s - before.at_s)
            came = self._curves[name].newest - records
            ages_s[name] = self._curves[name].age_s(now.at_s, came, done_per_s) if records > 0 else 0.0
        culprits = {name: culprit(self._topology, shares, ratios, name)[0] for name in now.waiting}
        return waits_s(self._topology, ages_s, culprits)


def _running_s(look: Look) -> float:
    """How long ago this life of the job began."""
    return (look.job.now_ms - look.job.life[1]) / 1000


def _is_old_news(before: _Read, now: _Read, sizes: Mapping[str, int]) -> bool:
    """Whether Flink answered with what it had fetched before: then its subtasks had less time than has passed."""
    had_s = could_s = 0.0
    for name, counted in now.counted.items():
        earlier = before.counted[name].available_s
        if counted.available_s is not None and earlier is not None:
            had_s += counted.available_s - earlier
            could_s += sizes[name] * (now.at_s - before.at_s)
    return had_s < LEAST_TOLD * could_s


def _shares(before: Mapping[str, Counted] | None, now: Mapping[str, Counted]) -> dict[str, Shares]:
    """What operators did with their time since the reading before, or since they were started."""
    return {name: _share(None if before is None else before[name], one) for name, one in now.items()}


def _share(before: Counted | None, now: Counted) -> Shares:
    if now.busy_s is None or now.available_s is None:
        return NOTHING
    held_back_s, busy_s, available_s = now.held_back_s, now.busy_s, now.available_s
    if before is not None and before.busy_s is not None and before.available_s is not None:
        held_back_s -= before.held_back_s
        busy_s -= before.busy_s
        available_s -= before.available_s
    return Shares(busy_s / available_s, held_back_s / available_s) if available_s > 0 else NOTHING


def _true_rate(before: Counted, now: Counted, elapsed_s: float) -> float | None:
    """Records per second that all subtasks got through while they were busy."""
    if now.busy_s is None or before.busy_s is None or elapsed_s <= 0:
        return None
    busy_s, done = now.busy_s - before.busy_s, now.done - before.done
    if done <= 0 or (busy_s < LEAST_BUSY_S and elapsed_s < LEAST_KNOWN_S):
        return None
    return done / max(busy_s, LEAST_BUSY_S) * _instances(before, now, elapsed_s)


def _instances(before: Counted | None, now: Counted, elapsed_s: float) -> float:
    """How many subtasks there were, by the time that they had."""
    if before is None or now.available_s is None or before.available_s is None or elapsed_s <= 0:
        return 1.0
    return max(1.0, round((now.available_s - before.available_s) / elapsed_s))
