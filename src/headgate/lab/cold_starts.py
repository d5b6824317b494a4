"""What new instances cost a job at first: the first task of each takes longer, and holds up the batch it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from statistics import median

from headgate.core.types import Batch, Startup
from headgate.lab.batch_times import BatchTimes

SEEN_WITHIN_S = 1.0
"""That a first task has ended is seen when it is next looked, which may be so much later where it is not said
otherwise."""


def joined_s(startup: Startup) -> float:
    """When an instance was there."""
    return startup.requested_s + startup.registered_after_s


def first_batch(startup: Startup, batches: Sequence[Batch], seen_within_s: float = SEEN_WITHIN_S) -> Batch | None:
    """The batch in which a new instance had its first task: the one that was running as it came, or one after it."""
    not_before_s = joined_s(startup)
    if startup.first_task_after_s is not None:
        not_before_s = max(not_before_s, startup.requested_s + startup.first_task_after_s - seen_within_s)
    return next((batch for batch in batches if batch.records and batch.ended_s > not_before_s), None)


def first_task_extra_s(startup: Startup, batch: Batch, task_s: float) -> float | None:
    """How much longer than other tasks of its batch the first task of an instance took; ``None`` where it had none.

    When a task has ended is known when it is next looked, but it ends with its batch at the latest.

    >>> first_task_extra_s(Startup("3", 0.0, 6.0, first_task_after_s=12.5), Batch(4.0, 12.0, 60), task_s=1.0)
    5.0
    """
    if startup.first_task_after_s is None:
        return None
    ended_s = min(startup.requested_s + startup.first_task_after_s, batch.ended_s)
    return max(0.0, ended_s - max(joined_s(startup), batch.started_s) - task_s)


def cold_task_s(
    startups: Sequence[Startup], batches: Sequence[Batch], times: BatchTimes, seen_within_s: float = SEEN_WITHIN_S
) -> float:
    """What new instances cost a batch that is cut into tasks, at the median; 0 where batches are not.

    That is what the first task of one takes longer, and what the batches take longer until it is warm.
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
            after = takewhile(lambda one: one.warming, (one for one in others if one.started_s >= batch.ended_s))
            later_s = sum(one.processing_time_s - times.expected_s(one.records, one.instances or 1) for one in after)
            # Those that come to one batch hold it up together.
            found[batch.started_s] = max(found.get(batch.started_s, 0.0), extra_s + max(0.0, later_s))
    return median(found.values()) if found else 0.0


def without_first_tasks(
    startups: Sequence[Startup], batches: Sequence[Batch], seen_within_s: float = SEEN_WITHIN_S
) -> list[Batch]:
    """The batches in which no instance had its first task."""
    held_up = [first_batch(startup, batches, seen_within_s) for startup in startups]
    return [batch for batch in batches if not any(batch is one for one in held_up)]
