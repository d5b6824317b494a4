"""The executors of an application over time: who is there, how busy they were, how long they took to be of use.

No JVM is needed here. Executors that Spark has forgotten (it remembers a hundred dead ones) keep counting.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.types import Answer, Batch, Instant, Outcome, Startup
from headgate.core.units import format_duration
from headgate.engines.spark.snapshots import Executor

STARTUP_WATCHED_S = 180.0
"""An executor that has got no task, or seen no warm batch, for so long is told of without."""


@dataclass(slots=True)
class _StartingExecutor:
    requested_s: Instant
    registered_s: Instant
    first_task_s: Instant | None = None
    warm_s: Instant | None = None
    is_reported: bool = False
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
        self._starting: dict[str, _StartingExecutor] = {}
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
        for executor in sorted(executors, key=lambda executor: executor.added_ms):
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
            self._starting[executor_id] = _StartingExecutor(self._requests.popleft(), at_s)
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
            executor_id: startup
            for executor_id, startup in self._starting.items()
            if startup.is_complete or now - startup.registered_s >= STARTUP_WATCHED_S
        }
        reported = done | {
            executor_id: startup for executor_id, startup in self._starting.items() if not startup.is_reported
        }
        for executor_id, startup in reported.items():
            startup.is_reported = True
            if executor_id in done:
                del self._starting[executor_id]
        return tuple(_startup_of(executor_id, startup) for executor_id, startup in reported.items())


def _startup_of(executor_id: str, starting: _StartingExecutor) -> Startup:
    since_s = starting.requested_s
    return Startup(
        executor_id,
        since_s,
        starting.registered_s - since_s,
        None if starting.first_task_s is None else starting.first_task_s - since_s,
        None if starting.warm_s is None else starting.warm_s - since_s,
    )


def least_useful(executors: Iterable[Executor]) -> list[Executor]:
    """Executors in the order in which they can best be spared: idle, without cached blocks, youngest first."""

    def usefulness(executor: Executor) -> tuple[int, int, int, str]:
        return max(0, executor.active_tasks), executor.cached_blocks, -executor.added_ms, executor.id

    return sorted(executors, key=usefulness)


ANSWER_WITHIN_S = 5.0


class _Call(threading.Thread):
    """Something that is asked of the cluster, whose answer may take its time."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(name="headgate-request", daemon=True)
        self._ask = ask
        self.answer: object = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self._ask()
        except Exception as error:  # noqa: BLE001 - raised again where the answer is taken
            self.error = error

    def answered_within(self, timeout_s: float) -> bool:
        self.join(timeout_s)
        return not self.is_alive()


class Kills:
    """Ends executors, which the cluster is asked for too."""

    def __init__(self, kill: Callable[[Sequence[str]], None], *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._kill = kill
        self._answer_within_s = answer_within_s
        self._open: _Call | None = None

    def end(self, executors: Sequence[str]) -> str:
        """Have executors ended; gives what is to be told. They are asked for again as long as they are there."""
        names = ", ".join(executors)
        if self._open is not None and self._open.is_alive():
            return f"the cluster has not answered yet that executor {names} is to be killed"
        call = self._open = _Call(lambda: self._kill(executors))
        call.start()
        if not call.answered_within(self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            return f"the cluster has not answered within {waited} that executor {names} is to be killed"
        if call.error is not None:
            raise call.error
        return f"killed executor {names}"


class Requests:
    """The requests of one application, one at a time."""

    def __init__(
        self, ask: Callable[[int], bool], *, confirmed: int | None = None, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._ask = ask
        self._answer_within_s = answer_within_s
        self._open: _Call | None = None
        self._last_request = 0
        self.confirmed = confirmed
        """What the cluster has agreed to keep; ``None`` before anything was asked of it."""

    def ask(self, executors: int) -> Answer | None:
        """Ask for a total; ``None`` when the cluster agreed, otherwise what is to be told."""
        if self._open is not None and not self._finish(self._open):
            detail = f"the cluster has not answered the request for {self._last_request} executors yet"
            return Answer(Outcome.FAILED, executors, detail)
        if self.confirmed == executors:
            return None
        request = self._open = _Call(lambda: self._ask(executors))
        self._last_request = executors
        request.start()
        if not self._finish(request, self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            detail = f"the cluster has not answered a request for {executors} executors within {waited}"
            return Answer(Outcome.FAILED, executors, detail)
        if isinstance(request.error, EngineGoneError):
            raise request.error
        if request.error is not None:
            return Answer(Outcome.FAILED, executors, _error_text(request.error))
        if not request.answer:
            return Answer(Outcome.REFUSED, executors, f"the cluster did not take a request for {executors} executors")
        return None

    def _finish(self, request: _Call, timeout_s: float = 0.0) -> bool:
        """Whether a request was answered; what it was answered is then known."""
        if not request.answered_within(timeout_s):
            return False
        self._open = None
        if request.answer:
            self.confirmed = self._last_request
        return True


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
