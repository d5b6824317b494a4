"""Rates of operators over a span of readings, and how a load spreads through the graph.

The *true* rate is what an instance processes while it is busy, however long it waited for records
(Kalavri et al., OSDI 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headgate.core.topology import Topology
from headgate.core.types import Batch, Instances, Instant, Sample
from headgate.core.window import Window, busy_span_s


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
