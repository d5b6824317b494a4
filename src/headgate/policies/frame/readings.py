"""Questions that several policies put to the readings of an operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headgate.core.objective import LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.topology import Topology
from headgate.core.types import Batch, Instances, Instant, Number, Sample
from headgate.core.units import format_duration, plain
from headgate.core.window import Window, busy_span_s

BUSY_SHARE = "busy_share"
"""Name of a derived metric for policies that take a metric by name; see :func:`busy_share`."""
_NO_WAIT = 0.2
"""Waiting for less than this share of the latency is jitter of a job that keeps up."""


def busy_share(sample: Sample) -> float | None:
    """Return the share of its time that an operator needs for its load; above 1 it falls behind.

    This is processing time over trigger interval if both are known: executors may look half idle while a batch takes
    longer than its interval. A running batch that already takes longer than the previous one counts before it ends.
    Otherwise it is the utilization, which cannot exceed 1.

    >>> busy_share(Sample("job", 0, processing_time_s=12, trigger_interval_s=10, utilization=0.6))
    1.2
    >>> busy_share(Sample("job", 0, processing_time_s=12, trigger_interval_s=10, running_s=40))
    4.0
    >>> busy_share(Sample("job", 0, utilization=0.6))
    0.6
    """
    if sample.trigger_interval_s and sample.processing_time_s is not None:
        return max(sample.processing_time_s, sample.running_s or 0.0) / sample.trigger_interval_s
    return sample.utilization


def reading_of(sample: Sample, metric: str) -> float | None:
    """Return a metric by name: one that every engine knows, ``busy_share``, or one of the user's own."""
    return busy_share(sample) if metric == BUSY_SHARE else sample.metric(metric)


def readings_over(window: Window, operator: str, duration_s: float, *, settled: bool = True) -> list[Sample]:
    """Return the readings of the last ``duration_s`` at the present size, oldest first; none if they do not span it.

    The oldest is the one that was current when the period began, so that rare readings still cover all of it.
    ``settled`` readings are those of warm instances and of batches that ended at this size. For scaling out use all
    readings: a batch that does not end must not hide it.
    """
    newest = window.sample(operator)
    if newest is None:
        return []
    oldest = window.sample_at(operator, newest.at_s - duration_s)
    settled_s = window.settled_since_s(operator)
    if oldest is None or (settled and oldest.warming):
        return []
    if settled_s is not None and (oldest.measured_s if settled else oldest.at_s) <= settled_s:
        return []
    return window.samples(operator, oldest.at_s, settled=settled)


def startup_s(window: Window, operator: str, otherwise_s: float) -> float:
    """Return the 90 % quantile of observed startup times, or ``otherwise_s`` if none was observed."""
    times = window.startup_times(operator)
    for moment in (times.warm_s, times.first_task_s, times.registered_s):
        measured_s = moment.quantile(0.9)
        if measured_s is not None:
            return measured_s
    return otherwise_s


def work_pressure(slo: Slo, sample: Sample) -> float | None:
    """Return the pressure on the objective without the wait for the trigger, which no size can avoid; 1 is the bound.

    >>> work_pressure(LatencySlo(10), Sample("job", 0, latency_s=7, trigger_interval_s=5))
    0.4
    """
    pressure, trigger_s = slo.pressure(sample), sample.trigger_interval_s
    if pressure is None or not isinstance(slo, LatencySlo) or not trigger_s or trigger_s >= slo.bound_s:
        return pressure
    return max(0.0, (pressure * slo.bound_s - trigger_s) / (slo.bound_s - trigger_s))


def is_queueing(sample: Sample) -> bool:
    """Whether latency comes from waiting records, so that the instances were busy all the time."""
    if sample.scheduling_delay_s is not None and sample.total_latency_s is not None:
        return sample.scheduling_delay_s >= sample.total_latency_s / 2
    return bool(sample.backlog)


def is_steady(window: Window, operator: str, sample: Sample) -> bool:
    """Whether the newest reading is typical of the present size: the operator has recovered from earlier events.

    It is not while instances start, stop or warm up, while records from before the change are processed or wait, and
    while an earlier queue is worked off. A growing queue is typical only if more arrives than is processed.
    """
    settled_s = window.settled_since_s(operator)
    if sample.warming or (settled_s is not None and _oldest_arrival_s(sample) <= settled_s):
        return False
    before = window.sample_at(operator, math.nextafter(sample.at_s, -math.inf))
    is_waiting = _waiting(sample) > _NO_WAIT * (sample.total_latency_s or 0.0)
    if before is None or not is_waiting:
        return True
    return _waiting(sample) >= _waiting(before) and _is_overloaded(sample)


def _is_overloaded(sample: Sample) -> bool:
    offered, processed = sample.input_rate_per_s, sample.processed_rate_per_s
    # Without a processed rate, the growing queue is the only evidence.
    return offered is None or processed is None or bool(offered >= processed)


def _oldest_arrival_s(sample: Sample) -> float:
    """Return when the oldest record of the newest batch or of the waiting records arrived."""
    waiting_s = sample.at_s - (sample.latency_s or 0.0)
    if sample.batch_ended_s is None:
        return waiting_s
    # A batch takes records since the previous trigger, and older ones if it started late.
    spent_s = (sample.processing_time_s or 0.0) + (sample.scheduling_delay_s or 0.0)
    return min(waiting_s, sample.batch_ended_s - spent_s - (sample.trigger_interval_s or 0.0))


def _waiting(sample: Sample) -> float:
    if sample.scheduling_delay_s is not None:
        return sample.scheduling_delay_s
    return sample.backlog or 0.0


def objective_status(slo: Slo, sample: Sample) -> tuple[str, dict[str, Number]]:
    """Return how a reading relates to the objective, in words and as numbers."""
    match slo:
        case LatencySlo(bound_s=bound_s):
            latency_s = sample.worst_latency_s
            if latency_s is None:
                return "the latency is not known", {"latency_s": None, "bound_s": bound_s}
            side = "over" if slo.violated_by(sample) else "within"
            text = f"latency {plain(latency_s)} s is {side} the {format_duration(bound_s)} bound"
            return text, {"latency_s": latency_s, "bound_s": bound_s}
        case SlowShareSlo(share=share):
            pressure = slo.pressure(sample)
            if pressure is None:
                return "the share of slow records is not known", {"slow_share": None, "slow_share_bound": share}
            side = "over" if slo.violated_by(sample) else "within"
            if not math.isfinite(pressure):
                text = f"{plain(sample.backlog or 0)} records wait although none arrive"
                return text, {"slow_share": None, "slow_share_bound": share, "backlog": sample.backlog}
            text = f"{plain(100 * pressure * share)}% slow records are {side} the {plain(100 * share)}% bound"
            return text, {"slow_share": pressure * share, "slow_share_bound": share}
        case ThroughputSlo():
            processed = sample.processed_rate_per_s
            numbers: dict[str, Number] = {"processed_rate_per_s": processed, "backlog": sample.backlog}
            if slo.violated_by(sample) is None:
                return "it is not known whether the job gets through what arrives", numbers
            if slo.violated_by(sample):
                return f"the job gets through {plain(processed or 0)} records/s, which is less than arrive", numbers
            return "the job gets through what arrives", numbers


@dataclass(frozen=True, slots=True)
class Flow:
    """The rates of one operator over a span, in records per second; ``None`` where that is not known."""

    arrived_per_s: float | None = None
    given_per_s: float | None = None
    """What upstream operators handed over, if backpressure holds them back; ``None``: all that arrived."""
    done_per_s: float | None = None
    emitted_per_s: float | None = None
    true_per_s: float | None = None
    """Records per second that one instance processes while it is busy."""
    backlog: float | None = None
    """Records waiting by the newest reading."""
    growth_per_s: float | None = None
    """By how much the backlog grew per second."""

    def slowed_to(self, observed_per_s: float | None, instances: int, *, tolerance: float) -> Flow:
        """Return this with the observed rate as true rate, if the true rate exceeds it by more than ``tolerance``.

        Instances may be busy waiting for something, so that busy time overstates what they can do.
        """
        if observed_per_s is None or instances < 1:
            return self
        each_per_s = observed_per_s / instances
        if self.true_per_s is not None and self.true_per_s <= each_per_s * (1 + tolerance):
            return self
        return replace(self, true_per_s=each_per_s)


def flow_over(window: Window, operator: str, instances: Instances, since_s: Instant) -> Flow:
    """Return the rates since a time. All readings since then must be of the present size."""
    readings = [sample for sample in window.samples(operator, since_s) if sample.at_s > since_s]
    if not readings:
        return Flow()
    before = window.sample_at(operator, since_s)
    levels = readings if before is None else [before, *readings]
    growth = growth_per_s(levels)
    arrived = _mean_rate(before, readings, "input_rate_per_s")
    done = _counted_rate(levels, "done")
    if done is None and arrived is not None and growth is not None:
        done = max(0.0, arrived - growth)
    return Flow(
        arrived_per_s=arrived,
        given_per_s=_counted_rate(levels, "given"),
        done_per_s=done,
        emitted_per_s=_mean_rate(before, readings, "output_rate_per_s"),
        true_per_s=_true_rate(window.batches(operator, since_s, settled=True), readings, instances, done),
        backlog=None if readings[-1].backlog is None else float(readings[-1].backlog),
        growth_per_s=growth,
    )


def growth_per_s(readings: Sequence[Sample]) -> float | None:
    """Return the least-squares slope of the backlog, so that swings with every batch do not count as growth.

    >>> growth_per_s([Sample("job", at_s, backlog=backlog) for at_s, backlog in ((0, 5), (5, 25), (10, 15), (15, 35))])
    1.6
    """
    known = [(float(sample.at_s), float(sample.backlog)) for sample in readings if sample.backlog is not None]
    if len(known) < 2:
        return None
    middle_s = math.fsum(at_s for at_s, _ in known) / len(known)
    spread = math.fsum((at_s - middle_s) ** 2 for at_s, _ in known)
    return math.fsum((at_s - middle_s) * backlog for at_s, backlog in known) / spread if spread > 0 else None


def caught_up_rate_per_s(readings: Sequence[Sample], *, lag_s: float, least_readings: int) -> float | None:
    """Return the rate processed while at least ``lag_s`` seconds of work wait, so that instances are saturated.

    >>> behind = [Sample("job", at_s, backlog=5000 - 20 * at_s, done=100 * at_s) for at_s in (0, 10, 20, 30)]
    >>> caught_up_rate_per_s(behind, lag_s=30, least_readings=2)
    100.0
    """
    shown = []
    for earlier, later in pairwise(readings):
        done_per_s = _counted_rate([earlier, later], "done")
        if done_per_s and later.backlog is not None and later.backlog >= lag_s * done_per_s and not later.warming:
            shown.append(done_per_s)
    return math.fsum(shown) / len(shown) if len(shown) >= least_readings else None


def _mean_rate(before: Sample | None, readings: Sequence[Sample], name: str) -> float | None:
    """Return the mean of a rate, each reading weighted by the time since the previous one."""
    total = weights_s = 0.0
    for earlier, sample in zip([before, *readings], readings, strict=False):
        rate = getattr(sample, name)
        if rate is None:
            continue
        # Without a previous reading the interval is unknown; any weight serves.
        weight_s = 1.0 if earlier is None else float(sample.at_s - earlier.at_s)
        total += float(rate) * weight_s
        weights_s += weight_s
    return total / weights_s if weights_s > 0 else None


def _counted_rate(readings: Sequence[Sample], name: str) -> float | None:
    """Return the rate of a counter, without intervals in which it was reset."""
    counted = elapsed_s = 0.0
    known = [sample for sample in readings if getattr(sample, name) is not None]
    for earlier, later in pairwise(known):
        more = float(getattr(later, name) - getattr(earlier, name))
        if more >= 0:
            counted += more
            elapsed_s += float(later.at_s - earlier.at_s)
    return counted / elapsed_s if elapsed_s > 0 else None


def _true_rate(
    batches: Iterable[Batch], readings: Sequence[Sample], instances: Instances, done_per_s: float | None
) -> float | None:
    """Return the true rate by batch times, else by the engine's rate while busy, else by utilization."""
    by_size: dict[int, list[Batch]] = {}
    for batch in batches:
        if batch.records and (size := batch.instances or instances.ready) >= 1:
            by_size.setdefault(size, []).append(batch)
    busy_s = math.fsum(size * busy_span_s(group) for size, group in by_size.items())
    if busy_s > 0:
        return math.fsum(batch.records for group in by_size.values() for batch in group) / busy_s
    settled = [sample for sample in readings if not sample.warming]
    if instances.ready < 1 or not settled:
        return None
    shown = [float(sample.processed_rate_per_s) for sample in settled if sample.processed_rate_per_s]
    if shown:
        return math.fsum(shown) / len(shown) / instances.ready
    busy = [float(sample.utilization) for sample in settled if sample.utilization is not None]
    share = math.fsum(busy) / len(busy) if busy else 0.0
    return done_per_s / share / instances.ready if share > 0 and done_per_s else None


def carried_on(
    topology: Topology, flows: Mapping[str, Flow], given: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return the input rate of each operator if all upstream operators keep up, plus its external input in ``given``.

    Sources receive the offered load. Rates that depend on something unknown are ``None``.

    >>> graph = Topology.of(("parse", "count"), ("count", "store"))
    >>> flows = {
    ...     "parse": Flow(done_per_s=50, emitted_per_s=200),
    ...     "count": Flow(arrived_per_s=200, done_per_s=100, emitted_per_s=10),
    ...     "store": Flow(arrived_per_s=10),
    ... }
    >>> carried_on(graph, flows, {"parse": 100.0})
    {'parse': 100.0, 'count': 400.0, 'store': 40.0}
    """
    rates: dict[str, float | None] = {}
    for operator in topology.order:
        upstream = topology.upstream(operator)
        parts = [_product(rates[source], output_ratio(topology, flows, source, operator)) for source in upstream]
        if not upstream or operator in given:
            parts.append(given.get(operator))
        known = [part for part in parts if part is not None]
        rates[operator] = sum(known) if len(known) == len(parts) else None
    return rates


def output_ratio(topology: Topology, flows: Mapping[str, Flow], source: str, operator: str) -> float | None:
    """Return the records that an operator receives per record processed by ``source``.

    With a single upstream operator the input rate of the operator itself is used. With several, only the output of each
    to all its downstream operators is known, of which each gets a copy.
    """
    done_per_s = flows.get(source, Flow()).done_per_s
    if not done_per_s:
        return None
    given = None
    if topology.upstream(operator) == (source,):
        flow = flows.get(operator, Flow())
        # What waits further up has not been done by the source either.
        given = flow.arrived_per_s if flow.given_per_s is None else flow.given_per_s
    if given is None:
        given = flows.get(source, Flow()).emitted_per_s
    return None if given is None else given / done_per_s


def _product(rate: float | None, ratio: float | None) -> float | None:
    # Nothing in gives nothing out, whatever the ratio is.
    if rate == 0:
        return 0.0
    return None if rate is None or ratio is None else rate * ratio
