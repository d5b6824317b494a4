"""The executors of an application over time: who is there, how busy they were, how long they took to be of use.

No JVM is needed here. Executors that Spark has forgotten (it remembers a hundred dead ones) keep counting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core.types import Batch, Instant, Startup
from headgate.engines.spark.snapshots import Executor

STARTUP_WATCHED_S = 180.0
"""An executor that has got no task, or seen no warm batch, for so long is told of without."""


@dataclass(slots=True)
class _Starting:
    requested_s: Instant
    registered_s: Instant
    first_task_s: Instant | None = None
    warm_s: Instant | None = None
    is_told: bool = False
    """Whether it was told that it has registered."""

    @property
    def is_complete(self) -> bool:
        return self.first_task_s is not None and self.warm_s is not None


class ExecutorHistory:
    """Follows all executors that were ever seen."""

    def __init__(self) -> None:
        self.joined_s: dict[str, Instant] = {}
        self.left_s: dict[str, Instant] = {}
        self._busy_ms: dict[str, int] = {}
        self._requests: deque[Instant] = deque()
        self._starting: dict[str, _Starting] = {}
        self._seen_s: Instant | None = None
        self._slots = 0
        self._available_s = 0.0

    @property
    def last_joined_s(self) -> Instant | None:
        return max(self.joined_s.values(), default=None)

    def joined_after(self, at_s: Instant) -> int:
        """How many came after a moment."""
        return sum(joined_s > at_s for joined_s in self.joined_s.values())

    @property
    def busy_s(self) -> float:
        """Task time of all executors so far; it grows when tasks end."""
        return sum(self._busy_ms.values()) / 1000

    @property
    def available_s(self) -> float:
        """Slot time of all executors so far."""
        return self._available_s

    def requested(self, more: int, at_s: Instant) -> None:
        """Remember that so many more were asked for, or that some no longer are."""
        if more > 0:
            self._requests.extend([at_s] * more)
        for _ in range(min(-more, len(self._requests))):
            self._requests.pop()

    def see(self, now: Instant, wall_shift_s: float, executors: Sequence[Executor]) -> None:
        """Take in the executors there are; ``wall_shift_s`` leads from wall time to the loop's clock."""
        if self._seen_s is not None:
            self._available_s += self._slots * max(0.0, now - self._seen_s)
        self._seen_s = now
        self._slots = sum(executor.cores for executor in executors if executor.is_active)
        for executor in sorted(executors, key=lambda one: one.added_ms):
            if executor.id not in self.joined_s:
                self._joins(executor.id, min(now, executor.added_ms / 1000 + wall_shift_s))
            if executor.removed_ms is not None:
                self.left_s.setdefault(executor.id, min(now, executor.removed_ms / 1000 + wall_shift_s))
                self._starting.pop(executor.id, None)
            self._busy_ms[executor.id] = max(executor.busy_ms, self._busy_ms.get(executor.id, 0))
            starting = self._starting.get(executor.id)
            if starting is not None and starting.first_task_s is None and executor.completed_tasks > 0:
                starting.first_task_s = now

    def _joins(self, executor_id: str, at_s: Instant) -> None:
        self.joined_s[executor_id] = at_s
        while self._requests and self._requests[0] <= at_s:
            # Executors are alike, so the one that was asked for first is taken to come first.
            self._starting[executor_id] = _Starting(self._requests.popleft(), at_s)
            return

    def on_batches(self, batches: Iterable[Batch]) -> None:
        """Take in batches that ended: the first one with all of an executor's time in it that is not cold."""
        for batch in batches:
            for starting in self._starting.values():
                if starting.warm_s is None and not batch.warming and batch.started_s >= starting.registered_s:
                    starting.warm_s = batch.started_s

    def take_startups(self, now: Instant) -> tuple[Startup, ...]:
        """The executors that have registered since this was last asked, and those that were seen to the end of their
        start-up, or for long enough: how long one takes to come must not wait for a batch that is as usual."""
        done = {
            executor_id: one
            for executor_id, one in self._starting.items()
            if one.is_complete or now - one.registered_s >= STARTUP_WATCHED_S
        }
        told = done | {executor_id: one for executor_id, one in self._starting.items() if not one.is_told}
        for executor_id, one in told.items():
            one.is_told = True
            if executor_id in done:
                del self._starting[executor_id]
        return tuple(_told(executor_id, one) for executor_id, one in told.items())


def _told(executor_id: str, one: _Starting) -> Startup:
    since_s = one.requested_s
    return Startup(
        executor_id,
        since_s,
        one.registered_s - since_s,
        None if one.first_task_s is None else one.first_task_s - since_s,
        None if one.warm_s is None else one.warm_s - since_s,
    )


def least_useful(executors: Iterable[Executor]) -> list[Executor]:
    """Executors in the order in which they can best be spared: idle, without cached blocks, youngest first."""
    return sorted(executors, key=lambda one: (max(0, one.active_tasks), one.cached_blocks, -one.added_ms, one.id))
