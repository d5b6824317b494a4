"""The clairvoyant: the instances that a load needs at each time, and what a policy that knows the load would pay.

**Micro-batches.** A record that just misses a batch waits for that batch and then for its own. So a batch may take half
the latency bound; where the trigger interval is longer than that, it may take what is left of the bound after waiting
for an interval (the whole bound where that wait is excused). The load is the mean over a batch's length.

**Queue.** Instances serve within the bound what arrived within the last bound, so that no record waits longer.

Without a latency bound, the arrivals of an interval are processed in one. Instances are requested early enough to be
ready, are paid for from then on, and stay where releasing and restarting them would cost as much. Everything else is as
for a real policy: sizes are whole and within bounds, batches have overhead, and scaling is limited by ``speed_up``,
``partitions`` and ``skew``. This is not the lowest possible cost: it makes no use of the records that may be late.
Pauses, cold batches and admission limits cost it nothing.
"""

from __future__ import annotations

import math

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.simulation.micro_batch import MicroBatch

_LEAST_SPARE = 0.1
"""The least share of a batch left for records: where overhead takes nearly all of it, no size helps."""
_HAIR = 1e-9
"""Tolerance in instances, so that rounding does not require one more."""


def needed_instances(
    rates_per_s: FloatArray,
    step_s: float,
    *,
    service_rate_per_s: float,
    job: MicroBatch | None,
    bound_s: float | None,
    bounds: tuple[int, int],
) -> FloatArray:
    """Return the instances that have to be ready in each step; ``job`` is ``None`` in the queue model.

    Where no size within the bounds is enough, it is the size with the highest throughput.
    """
    lowest, highest = bounds
    sizes = np.arange(lowest, highest + 1)
    if job is None:
        rates = _mean_before(rates_per_s, 1 if bound_s is None else max(1, math.floor(bound_s / step_s + _HAIR)))
        speeds, spare = sizes.astype(float), 1.0
    else:
        window_s, batch_s = _batch(job.trigger_interval_s, bound_s)
        spare = max(_LEAST_SPARE, batch_s / window_s - job.overhead_s / window_s)
        rates = _mean_around(_weighed(rates_per_s, step_s, job), max(1, round(window_s / step_s)))
        speeds = np.array([_speed(job, int(size), window_s, spare) for size in sizes])
    wanted = rates / service_rate_per_s / spare - _HAIR
    # The smallest size that is fast enough.
    place = np.searchsorted(np.maximum.accumulate(speeds), wanted)
    return np.asarray(sizes[np.where(place < len(sizes), place, speeds.argmax())], dtype=np.float64)


def paid_instances(needed: FloatArray, step_s: float, startup_s: float) -> FloatArray:
    """Return the instances that are paid for: each from when it has to be requested to be ready when needed."""
    # This also closes gaps that are too short to pay off.
    return _largest_ahead(needed, round(startup_s / step_s))


def _batch(trigger_interval_s: float, bound_s: float | None) -> tuple[float, float]:
    """Return how long a batch collects records, and how long it may take."""
    if bound_s is None:
        return trigger_interval_s, trigger_interval_s
    if trigger_interval_s <= bound_s / 2:
        return bound_s / 2, bound_s / 2
    return trigger_interval_s, bound_s - trigger_interval_s if trigger_interval_s < bound_s else bound_s


def _speed(job: MicroBatch, instances: int, window_s: float, spare: float) -> float:
    """Return the throughput of several instances in a batch, as a multiple of one instance's."""
    if instances == 0:
        return 0.0
    busy = float(instances)
    slots = instances * job.cores
    if job.partitions is not None:
        waves = math.ceil(job.partitions / slots)
        busy = job.partitions / (waves * job.cores)
        spare_left = max(_LEAST_SPARE, spare - waves * job.task_overhead_s / window_s)
        busy *= spare_left / spare
    if job.largest_share:
        busy = min(busy, 1 / (job.largest_share * job.cores))
    return busy * job.efficiency(instances)


def _weighed(rates_per_s: FloatArray, step_s: float, job: MicroBatch) -> FloatArray:
    """Return rates in records of usual weight."""
    if not job.work_factor:
        return rates_per_s
    times_s, factors = zip(*job.work_factor, strict=True)
    return np.asarray(rates_per_s * np.interp(np.arange(len(rates_per_s)) * step_s, times_s, factors))


def _mean_around(rates: FloatArray, span: int) -> FloatArray:
    around = np.convolve(rates, np.full(span, 1 / span), mode="full")
    first = (span - 1) // 2
    return np.asarray(around[first : first + len(rates)])


def _mean_before(rates: FloatArray, span: int) -> FloatArray:
    return np.asarray(np.convolve(rates, np.full(span, 1 / span), mode="full")[: len(rates)])


def _largest_ahead(values: FloatArray, steps: int) -> FloatArray:
    """Return at each place the largest of its value and the ``steps`` that follow."""
    found, covered = values, 1
    while covered < steps + 1:
        # Two overlapping windows make one of up to twice the length.
        ahead = min(covered, steps + 1 - covered)
        found = np.maximum(found, np.concatenate([found[ahead:], np.full(min(ahead, len(found)), found[-1])]))
        covered += ahead
    return found
