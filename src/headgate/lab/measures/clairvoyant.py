"""What the load would have cost somebody who knew it: the instances that were needed at each time, and paid for.

**Micro-batches.** A record that just misses a batch waits for it, and then for its own. So there are as many instances
as a batch needs that takes half the bound; where the trigger interval is longer than that, as one needs that takes what
is left of the bound after an interval's wait (the whole bound where that wait is excused). The load is the mean of what
comes around the moment, as long as a batch.

**Queue.** As many as serve within the bound what came within the last bound: then no record waits longer than it.

Without a bound on latency, what came in an interval is got through in one. Instances are asked for early enough to be
ready, are paid for from then on, and are kept where letting them go and starting them again would cost as much. Nothing
else is known better: sizes are whole and within their bounds, batches have their overhead, and several instances get
through what the job lets them (``speed_up``, ``partitions``, ``skew``). It is not the cheapest that one could think of,
as it makes no use of the records that may be late; and pauses, cold batches and admission limits cost it nothing.
"""

from __future__ import annotations

import math

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.simulation.micro_batch import MicroBatch

_LEAST_SPARE = 0.1
"""Where overhead takes nearly all of a batch, that much is taken to be left for records: no size helps then."""
_HAIR = 1e-9
"""Instances by which rounding must not make one more necessary."""


def needed_instances(
    rates_per_s: FloatArray,
    step_s: float,
    *,
    service_rate_per_s: float,
    job: MicroBatch | None,
    bound_s: float | None,
    bounds: tuple[int, int],
) -> FloatArray:
    """The instances that have to be ready, one value per step; ``job`` is ``None`` in the queue model.

    Where no size within the bounds is enough, the one that gets through most.
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
    # The first size that is as fast as all before it, and fast enough.
    place = np.searchsorted(np.maximum.accumulate(speeds), wanted)
    return np.asarray(sizes[np.where(place < len(sizes), place, speeds.argmax())], dtype=np.float64)


def paid_instances(needed: FloatArray, step_s: float, startup_s: float) -> FloatArray:
    """The instances that are paid for: each from when it must be asked for, to be ready when it is needed."""
    # That closes gaps that are too short to pay off as well.
    return _largest_ahead(needed, round(startup_s / step_s))


def _batch(trigger_interval_s: float, bound_s: float | None) -> tuple[float, float]:
    """How long the records of a batch come in, and how long it may take."""
    if bound_s is None:
        return trigger_interval_s, trigger_interval_s
    if trigger_interval_s <= bound_s / 2:
        return bound_s / 2, bound_s / 2
    return trigger_interval_s, bound_s - trigger_interval_s if trigger_interval_s < bound_s else bound_s


def _speed(job: MicroBatch, instances: int, window_s: float, spare: float) -> float:
    """How many single instances' worth of records a number of them gets through in a batch."""
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
    """Rates in records of usual weight."""
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
    """At each place the largest of it and the ``steps`` that follow."""
    found, covered = values, 1
    while covered < steps + 1:
        # Two stretches that overlap make one of up to twice the length.
        ahead = min(covered, steps + 1 - covered)
        found = np.maximum(found, np.concatenate([found[ahead:], np.full(min(ahead, len(found)), found[-1])]))
        covered += ahead
    return found
