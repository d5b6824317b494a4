"""Questions that several policies put to the readings of an operator."""

from __future__ import annotations

import math

from headgate.core.objective import LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.types import Number, Sample
from headgate.core.units import format_duration, plain
from headgate.core.window import Window

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
