"""spark-dra: what Spark's own dynamic allocation does, as a baseline (``ExecutorAllocationManager``).

Spark looks at tasks, which readings do not have, so its two questions are answered from what readings do have:

- *Do tasks wait for a slot?* Where it is known how many tasks a batch has, and batches are reported: as long as a batch
  has not begun its last wave of tasks. With two waves, half of its time. Elsewhere, yes when a batch had to wait
  (scheduling delay above 0) or when all slots were busy (utilization 1); and only where neither is known does a backlog
  count: records always wait for the next batch.
- *Is an executor idle?* Spark spreads every batch over all executors, so that none is idle for long while anything
  runs. Only a job that gets no records leaves its executors idle. Where the number of tasks in a batch is known, those
  executors are idle as well that no task is left for.

Source: Spark's documentation of ``spark.dynamicAllocation.*`` and ``ExecutorAllocationManager.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, hold, register
from headgate.policies.frame.settings import PositiveSeconds, Settings


class SparkDraSettings(Settings):
    scheduler_backlog_timeout_s: PositiveSeconds = 1.0
    """How long work must have waited before the first request."""
    sustained_scheduler_backlog_timeout_s: PositiveSeconds = 1.0
    """Time until each next request, which is twice as large."""
    executor_idle_timeout_s: PositiveSeconds = 60.0
    """How long an instance must have been idle before it is removed."""
    tasks_per_batch: Annotated[int, Field(ge=1)] | None = None
    """Tasks (partitions) of a batch; without it, as many as readings say. More instances than they have slots for are
    never needed."""
    cores_per_instance: Annotated[int, Field(ge=1)] = 1
    """Tasks that an instance runs at a time."""


@dataclass(slots=True)
class WaitingWork:
    """Work that waits: since when, and the request that is due next."""

    next_request_s: Instant
    request: int = 1


@dataclass(slots=True)
class WaitingTasks:
    """The batch whose tasks waited last: when it began, and how many requests were made for it."""

    batch_s: Instant
    requests: int
    seen_s: Instant
    """The decision before this one: batches that ended later are new."""


_SAME_BATCH_S = 0.5
"""Two readings of when a batch began differ by no more than this."""
_MOST_DOUBLINGS = 20


@register
class SparkDra(OperatorPolicy[SparkDraSettings]):
    """Asks for 1, 2, 4, 8 … more instances as long as work waits, and gives those back that stay idle.

    Requests that fall due between two decisions are made together; Spark looks ten times a second.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [Sample("job", at_s, scheduling_delay_s=3) for at_s in (0, 1, 2)]
    >>> target = last_target("spark-dra", "latency < 10s", 2, *readings)
    >>> target.instances, target.reason
    (4, 'work waits for instances: 2 more are requested, next 4')
    """

    name = "spark-dra"
    summary = "Spark's dynamic allocation: requests that double while work waits, idle executors removed."
    Settings = SparkDraSettings
    # Spark's own waits for nothing but its timeouts.
    guards = GuardSettings(pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: SparkDraSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.executor_idle_timeout_s)
        self._pending: dict[str, WaitingWork] = {}
        self._idle_since_s: dict[str, Instant] = {}
        self._tasks: dict[str, WaitingTasks] = {}

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        needed = self._needed(sample)
        reports_batches = sample.batch_ended_s is not None or sample.running_s is not None
        waits = _work_waits(sample)
        numbers: dict[str, Number] = {
            "scheduling_delay_s": sample.scheduling_delay_s,
            "utilization": sample.utilization,
            "backlog": sample.backlog,
        }
        if needed is not None and reports_batches:
            return self._by_tasks(now, window, operator, instances, sample, {**numbers, "needed": needed})
        if waits is None:
            self._pending.pop(operator, None)
            self._idle_since_s.pop(operator, None)
            return hold(instances, "no-data", "it is not known whether work waits: holding", numbers)
        if waits:
            self._idle_since_s.pop(operator, None)
            return self._request(now, operator, instances, sample, numbers)
        self._pending.pop(operator, None)
        return self._release(now, operator, instances, sample, numbers)

    def _needed(self, sample: Sample) -> int | None:
        """The most instances that a batch can use (``maxNumExecutorsNeeded``), if that is known."""
        tasks = self.settings.tasks_per_batch
        return sample.useful_instances if tasks is None else -(-tasks // self.settings.cores_per_instance)

    def _by_tasks(
        self,
        now: Instant,
        window: Window,
        operator: str,
        instances: Instances,
        sample: Sample,
        numbers: dict[str, Number],
    ) -> Target:
        """Decide by how long tasks of each batch had to wait for the waves before them."""
        needed = min(self.objective.max_instances, self._needed(sample) or self.objective.max_instances)
        before = self._tasks.get(operator)
        # State that was saved on another clock may lie ahead of this one.
        if before is None or before.seen_s > now:
            before = WaitingTasks(now, 0, now)
        batches = [(batch.started_s, batch.processing_time_s) for batch in window.batches(operator, before.seen_s)]
        if sample.running_s is not None:
            batches.append((sample.at_s - sample.running_s, sample.running_s))
        more, last = 0, before
        for started_s, took_s in batches:
            made = last.requests if abs(started_s - last.batch_s) < _SAME_BATCH_S else 0
            due = max(made, self._requests_due(took_s, needed, max(1, instances.ready)))
            # Each request is twice as large as the one before it, and a new batch begins with one instance.
            more += sum(2**request for request in range(made, min(due, made + _MOST_DOUBLINGS)))
            last = WaitingTasks(started_s, due, now)
        self._tasks[operator] = WaitingTasks(last.batch_s, last.requests, now)
        self._pending.pop(operator, None)
        if not more:
            return self._release(now, operator, instances, sample, numbers)
        self._idle_since_s.pop(operator, None)
        if instances.planned >= needed:
            return hold(instances, "enough", f"tasks wait, but {needed} instances are all they can use", numbers)
        target = min(needed, instances.planned + more)
        reason = f"tasks waited for a slot: {target - instances.planned} more instances are requested"
        return Target(target, "backlog", reason, {**numbers, "requested": more})

    def _requests_due(self, took_s: float, needed: int, ready: int) -> int:
        """How many requests a batch makes in so long: one after the timeout, and more while tasks wait."""
        waves = -(-needed // ready)
        waited_s = took_s * (waves - 1) / waves
        over_s = waited_s - self.settings.scheduler_backlog_timeout_s
        return 0 if over_s < 0 or waves == 1 else 1 + int(over_s // self.settings.sustained_scheduler_backlog_timeout_s)

    def _request(
        self, now: Instant, operator: str, instances: Instances, sample: Sample, numbers: dict[str, Number]
    ) -> Target:
        settings = self.settings
        first_s = now + settings.scheduler_backlog_timeout_s
        pending = self._pending.setdefault(operator, WaitingWork(first_s))
        # State that was saved on another clock may lie ahead of this one.
        pending.next_request_s = min(
            pending.next_request_s, now + max(first_s - now, settings.sustained_scheduler_backlog_timeout_s)
        )
        highest = self.objective.max_instances
        needed = min(highest, self._needed(sample) or highest)
        more = 0
        while pending.next_request_s <= now and instances.planned + more < needed:
            more += pending.request
            pending.request *= 2
            pending.next_request_s += settings.sustained_scheduler_backlog_timeout_s
        if instances.planned >= needed:
            pending.request, pending.next_request_s = 1, first_s
            return hold(instances, "enough", f"work waits, but {needed} instances are all it can use", numbers)
        if not more:
            left = format_duration(pending.next_request_s - now)
            reason = f"work waits for instances: {pending.request} more will be requested in {left}"
            return hold(instances, "waiting", reason, {**numbers, "next_request": pending.request})
        target = min(needed, instances.planned + more)
        reason = f"work waits for instances: {more} more are requested, next {pending.request}"
        return Target(target, "backlog", reason, {**numbers, "requested": more, "next_request": pending.request})

    def _release(
        self, now: Instant, operator: str, instances: Instances, sample: Sample, numbers: dict[str, Number]
    ) -> Target:
        needed = self._needed(sample)
        if _has_no_work(sample):
            left, why = self.objective.min_instances, "no records came"
        elif needed is not None and needed < instances.planned:
            left, why = max(needed, self.objective.min_instances), f"a batch has work for {needed} instances only"
        else:
            left, why = instances.planned, ""
        if left >= instances.planned:
            self._idle_since_s.pop(operator, None)
            return hold(instances, "steady", "no work waits, and no instance is without any", numbers)
        since_s = self._idle_since_s[operator] = min(self._idle_since_s.get(operator, now), now)
        idle_for_s, timeout_s = now - since_s, self.settings.executor_idle_timeout_s
        numbers = {**numbers, "idle_for_s": idle_for_s}
        if idle_for_s < timeout_s:
            reason = f"{why}: idle instances are removed after {format_duration(timeout_s)}"
            return hold(instances, "idle-soon", reason, numbers)
        return Target(left, "idle", f"{why} for {format_duration(idle_for_s)}: idle instances are removed", numbers)

    def _state(self) -> dict[str, JSON]:
        return {
            "pending": {name: [pending.next_request_s, pending.request] for name, pending in self._pending.items()},
            "idle_since_s": dict(self._idle_since_s),
            "tasks": {name: [last.batch_s, last.requests, last.seen_s] for name, last in self._tasks.items()},
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        pending = {
            str(name): WaitingWork(float(at_s), int(request)) for name, (at_s, request) in state["pending"].items()
        }
        # State of earlier versions has no tasks.
        self._tasks = {
            str(name): WaitingTasks(float(batch_s), int(requests), float(seen_s))
            for name, (batch_s, requests, seen_s) in state.get("tasks", {}).items()
        }
        self._idle_since_s = {str(name): float(at_s) for name, at_s in state["idle_since_s"].items()}
        self._pending = pending


def _work_waits(sample: Sample) -> bool | None:
    """Whether tasks waited for a slot; ``None`` where a reading does not tell."""
    delay_s, utilization = sample.scheduling_delay_s, sample.utilization
    if delay_s is not None or utilization is not None:
        return (delay_s or 0.0) > 0 or (utilization or 0.0) >= 1
    return None if sample.backlog is None else sample.backlog > 0


def _has_no_work(sample: Sample) -> bool:
    """Whether a reading says that there was nothing to do at all."""
    return sample.utilization == 0 or (sample.input_rate_per_s == 0 and not sample.backlog)
