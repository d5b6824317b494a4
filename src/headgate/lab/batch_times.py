"""Batch processing times: a fixed part, a fixed part per task, and a part per record, fitted to measured batches.

Records are divided among the instances. Tasks of a batch run in waves, and the slot with the most tasks and records
determines the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from headgate.core.types import Batch, Startup

SEEN_WITHIN_S = 1.0
"""How much later than its end a first task may be observed to have ended, by default."""


def joined_s(startup: Startup) -> float:
    """Return when an instance registered."""
    return startup.requested_s + startup.registered_after_s


def first_batch(startup: Startup, batches: Sequence[Batch], seen_within_s: float = SEEN_WITHIN_S) -> Batch | None:
    """Return the batch of a new instance's first task: the one running as it registered, or a later one."""
    not_before_s = joined_s(startup)
    if startup.first_task_after_s is not None:
        not_before_s = max(not_before_s, startup.requested_s + startup.first_task_after_s - seen_within_s)
    return next((batch for batch in batches if batch.records and batch.ended_s > not_before_s), None)


def first_task_extra_s(startup: Startup, batch: Batch, task_s: float) -> float | None:
    """Return how much longer than others an instance's first task took; ``None`` where it had none.

    The end of a task is observed late, but no later than the end of its batch counts.

    >>> first_task_extra_s(Startup("3", 0.0, 6.0, first_task_after_s=12.5), Batch(4.0, 12.0, 60), task_s=1.0)
    5.0
    """
    if startup.first_task_after_s is None:
        return None
    ended_s = min(startup.requested_s + startup.first_task_after_s, batch.ended_s)
    return max(0.0, ended_s - max(joined_s(startup), batch.started_s) - task_s)


def cold_task_s(
    startups: Sequence[Startup],
    batches: Sequence[Batch],
    times: MeasuredBatchTimes,
    seen_within_s: float = SEEN_WITHIN_S,
) -> float:
    """Return the median extra time that new instances cost a batch with tasks; 0 for batches without tasks.

    It covers the slower first task of an instance and the slower batches until the instance is warm.
    """
    if times.tasks is None:
        return 0.0
    found: dict[float, float] = {}
    others = without_first_tasks(startups, batches, seen_within_s)
    for startup in startups:
        batch = first_batch(startup, batches, seen_within_s)
        if batch is None:
            continue
        task_s = times.task_overhead_s + batch.records / times.tasks / (times.rate_per_s / times.cores)
        extra_s = first_task_extra_s(startup, batch, task_s)
        if extra_s is not None:
            after = takewhile(
                lambda later: later.warming, (later for later in others if later.started_s >= batch.ended_s)
            )
            later_s = sum(times.delay_s(later) for later in takewhile(lambda later: later.warming, after))
            # Instances that join the same batch delay it together.
            found[batch.started_s] = max(found.get(batch.started_s, 0.0), extra_s + max(0.0, later_s))
    return median(found.values()) if found else 0.0


def without_first_tasks(
    startups: Sequence[Startup], batches: Sequence[Batch], seen_within_s: float = SEEN_WITHIN_S
) -> list[Batch]:
    """Return the batches in which no instance had its first task."""
    delayed = [first_batch(startup, batches, seen_within_s) for startup in startups]
    return [batch for batch in batches if not any(batch is other for other in delayed)]


LEAST_BATCHES = 3
_USUAL = 0.05
"""A batch that is off by more than about this share of its time counts for less: something else delayed it."""


@dataclass(frozen=True, slots=True)
class MeasuredBatchTimes:
    overhead_s: float
    """Fixed time of a batch."""
    rate_per_s: float
    """Records per second of one instance, without the fixed parts."""
    cold_factor: float
    """How many times as long batches took while instances joined and warmed up."""
    noise: float
    """Standard deviation of the logarithm of measured over expected work time of the other batches, estimated from
    their middle half."""
    batches: int
    """Number of batches it was fitted to."""
    task_overhead_s: float = 0.0
    """Fixed time of a task."""
    cores: int = 1
    tasks: int | None = None

    def expected_s(self, records: float, instances: int) -> float:
        """Return the time of a batch on warm instances."""
        waves, share = _waves(instances, self.cores, self.tasks), _share(instances, self.cores, self.tasks)
        return self.overhead_s + self.task_overhead_s * waves + records * share / self.rate_per_s

    def delay_s(self, batch: Batch) -> float:
        """Return how much longer than expected a batch took; below 0 where it was faster."""
        return batch.processing_time_s - self.expected_s(batch.records, batch.instances or 1)


def fit_batch_times(batches: Sequence[Batch], *, cores: int = 1, tasks: int | None = None) -> MeasuredBatchTimes | None:
    """Fit the times of measured batches; ``None`` where there are too few or too similar ones.

    >>> batches = [Batch(0, 1 + records / 50, records, instances=1) for records in (50, 100, 200)]
    >>> fitted = fit_batch_times(batches)
    >>> round(fitted.overhead_s, 6), round(fitted.rate_per_s, 6)
    (1.0, 50.0)
    """
    measured = [batch for batch in batches if batch.records > 0 and batch.instances and batch.processing_time_s > 0]
    typical = [batch for batch in measured if not batch.warming]
    if len(typical) < LEAST_BATCHES:
        return None
    parts = _parts(typical, cores, tasks)
    if not np.ptp(parts[:, 2]) > 0:
        return None
    times_s = np.array([batch.processing_time_s for batch in typical])
    overhead_s, task_overhead_s, slope_s = _fit(parts, times_s)
    if not slope_s > _HARDLY_S:
        return None
    fixed_s, work_s = parts[:, :2] @ [overhead_s, task_overhead_s], slope_s * parts[:, 2]
    # The work time of a batch is only well known where it is most of its time.
    mostly = (work_s >= fixed_s) & (times_s > fixed_s)
    cold = [batch for batch in measured if batch.warming]
    return MeasuredBatchTimes(
        overhead_s=overhead_s,
        rate_per_s=1 / slope_s,
        cold_factor=_cold_factor(cold, np.array([overhead_s, task_overhead_s]), slope_s, cores, tasks),
        noise=_spread(np.log((times_s - fixed_s)[mostly] / work_s[mostly])) if mostly.any() else 0.0,
        batches=len(typical),
        task_overhead_s=task_overhead_s,
        cores=cores,
        tasks=tasks,
    )


_HARDLY_S = 1e-9
"""Processing times per record below this cannot be measured."""


def _fit(parts: NDArray[np.float64], times_s: NDArray[np.float64]) -> tuple[float, float, float]:
    """Fit the fixed part, the part per task and the part per record, none below 0."""
    # The cost of waves can be separated from the fixed part only where their number varies.
    columns = [0, 1, 2] if np.ptp(parts[:, 1]) > 0 else [0, 2]
    # Relative errors, so that long batches do not dominate short ones.
    scaled = parts[:, columns] / times_s[:, None]
    first, *_ = np.linalg.lstsq(scaled, np.ones(len(times_s)), rcond=None)
    found = least_squares(
        lambda values: scaled @ values - 1,
        np.maximum(first, 1e-6),
        jac=lambda _: scaled,
        bounds=(0, np.inf),
        x_scale=np.maximum(np.abs(first), 1e-3),
        loss="soft_l1",
        f_scale=_USUAL,
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    values = dict(zip(columns, found.x.tolist(), strict=True))
    return values[0], values.get(1, 0.0), values[2]


def _spread(values: NDArray[np.float64]) -> float:
    """Estimate the standard deviation from the middle half of the values, which outliers do not affect."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / _MIDDLE_HALF


_MIDDLE_HALF = 1.349
"""How many standard deviations the middle half of a normal distribution spans."""


def _parts(batches: Sequence[Batch], cores: int, tasks: int | None) -> NDArray[np.float64]:
    """Return for each batch a row of 1, its waves of tasks, and the records of the busiest slot."""
    sizes = [batch.instances or 1 for batch in batches]
    waves = [_waves(instances, cores, tasks) for instances in sizes]
    records = [batch.records * _share(instances, cores, tasks) for batch, instances in zip(batches, sizes, strict=True)]
    return np.column_stack([np.ones(len(batches)), waves, records]).astype(np.float64)


def _waves(instances: int, cores: int, tasks: int | None) -> int:
    return 0 if tasks is None else math.ceil(tasks / (instances * cores))


def _share(instances: int, cores: int, tasks: int | None) -> float:
    """Return an instance's share of a batch's records, as if all its slots were the busiest."""
    return 1 / instances if tasks is None else _waves(instances, cores, tasks) * cores / tasks


def _cold_factor(
    cold: Sequence[Batch], fixed_s: NDArray[np.float64], slope_s: float, cores: int, tasks: int | None
) -> float:
    if not cold:
        return 1.0
    parts = _parts(cold, cores, tasks)
    # Summed over all batches: in a nearly empty one, the work cannot be separated from the fixed part.
    work_s = np.array([batch.processing_time_s for batch in cold]) - parts[:, :2] @ fixed_s
    return max(1.0, float(work_s.sum() / (slope_s * parts[:, 2]).sum()))
