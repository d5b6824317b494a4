"""The history of executors: start-ups, work, and how many may fail before Spark ends the application.

On Kubernetes and YARN, Spark ends an application after more than ``spark.executor.maxNumFailures`` failed executors; a
pod that the cluster refuses to create is such a failure. Without that setting the limit is twice the number of
executors that the application was started with, at least 3, over its whole life: a job that grows into a quota, or just
lives for long, is ended by it. A limit that nobody has chosen is therefore raised where Spark can be reached. Near any
other, after an executor has failed before it had done anything, no more are requested for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from headgate.core.errors import InputError
from headgate.core.types import Batch, Event, Instant, Severity, Startup
from headgate.core.units import format_duration, parse_duration_s
from headgate.engines.spark.backend import FailureTracker
from headgate.engines.spark.snapshots import Executor

STARTUP_WATCHED_S = 180.0
"""After so long an executor is reported even without a first task or a warm batch."""


@dataclass(slots=True)
class _StartingExecutor:
    requested_s: Instant
    registered_s: Instant
    first_task_s: Instant | None = None
    warm_s: Instant | None = None
    is_reported: bool = False
    """Whether its registration was reported."""

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
        """Return how many registered after a moment."""
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
        """Note a request for so many more executors; a negative number withdraws the newest requests."""
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
            # Executors are alike: the first to register answers the oldest request.
            self._starting[executor_id] = _StartingExecutor(self._requests.popleft(), at_s)
            return

    def on_batches(self, batches: Iterable[Batch]) -> None:
        """Take in batches that ended: the first one with all of an executor's time in it that is not cold."""
        for batch in batches:
            for starting in self._starting.values():
                if starting.warm_s is None and not batch.warming and batch.started_s >= starting.registered_s:
                    starting.warm_s = batch.started_s

    def take_startups(self, now: Instant) -> tuple[Startup, ...]:
        """Return executors that have registered since the last call, and those whose start-up is complete or too old.

        The time to registration is thus known early, without waiting for a warm batch.
        """
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


class WarmUp:
    """Whether the batches of a query are slower than usual, because it or executors are new, or executors have left."""

    def __init__(self) -> None:
        self.warming = True
        self._is_new = True
        self._warm_for_s: Instant | None = None
        """The newest registration of an executor after which a full batch was seen."""

    def mark(self, batch: Batch, executors: ExecutorHistory, ready: int, *, has_worked: bool) -> Batch:
        """Return a batch that has ended with its number of executors, and whether it was warming."""
        joined_s, is_first = executors.last_joined_s, self._is_new
        cold = is_first or (joined_s is not None and self._warm_for_s != joined_s)
        if cold and has_worked and (joined_s is None or batch.started_s >= joined_s):
            self._warm_for_s, self._is_new = joined_s, False
        left = any(batch.started_s < left_s <= batch.ended_s for left_s in executors.left_s.values())
        # An executor that came only after the batch had ended says nothing of it.
        self.warming = is_first or (cold and batch.ended_s >= (joined_s or 0.0)) or left
        instances = max(1, ready - executors.joined_after(batch.ended_s))
        return replace(batch, warming=self.warming, instances=instances)


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


LIMIT = ("spark.executor.maxNumFailures", "spark.yarn.max.executor.failures")
INTERVAL = ("spark.executor.failuresValidityInterval", "spark.yarn.executor.failuresValidityInterval")
"""Settings, with their names before Spark 3.5."""
LEAST_DEFAULT = 3
RAISED_LIMIT, RAISED_INTERVAL_S = 100_000, 3600.0
"""In an hour a cluster refuses at most some thousands of pods: Spark asks again every second."""
PAUSED_FOR_S = 600.0
"""After so long without an executor that failed before it had done anything, more are requested even near the limit."""


class FailureLimit:
    """Follows the failures of one application's executors; ``limit`` is ``None`` where Spark has none."""

    def __init__(self, limit: int | None, interval_s: float | None, tracker: FailureTracker | None) -> None:
        self.limit = limit
        self._interval_s = interval_s
        self._tracker = tracker
        self._gone: set[str] = set()
        self._failed_s: list[Instant] = []
        """When executors failed: those that left without having been sent away."""
        self._count = 0
        self._last_s: Instant | None = None
        """When one last failed that had done nothing: such failures follow from requests, others from faults."""
        self.event: Event | None = None
        """What is to be said at the start."""

    @classmethod
    def of(cls, spark: SparkSession, tracker: FailureTracker | None, now: Instant, *, acts: bool) -> FailureLimit:
        """The limit of a session, raised if nobody has chosen it, it can be reached, and Headgate ``acts``."""
        conf = dict(spark.sparkContext.getConf().getAll())
        limit, interval_s, is_chosen = limit_of(str(spark.sparkContext.master), conf)
        if limit is None or is_chosen or not acts:
            return cls(limit, interval_s, tracker)
        why = f"Spark would end this application after more than {limit} failed executors, as {LIMIT[0]} is not set"
        if tracker is not None and tracker.raise_to(max(limit, RAISED_LIMIT), RAISED_INTERVAL_S):
            made = cls(max(limit, RAISED_LIMIT), RAISED_INTERVAL_S, tracker)
            what = f"raised to {made.limit:,} within {format_duration(RAISED_INTERVAL_S)}"
            severity = Severity.INFO
        else:
            made = cls(limit, interval_s, tracker)
            what = f"submit the job with {LIMIT[0]}=1000 and {INTERVAL[0]}=1h, or it will not grow near that limit"
            severity = Severity.WARNING
        made.event = Event(now, "failure-limit", f"{why}: {what}", {"limit": limit}, severity)
        return made

    @property
    def count(self) -> int:
        """The failures that count now, as of the last look."""
        return self._count

    def see(self, now: Instant, shift_s: float, executors: Sequence[Executor], ours: Collection[str]) -> None:
        """Take in the executors there are and were, and those that Headgate has sent away."""
        if self.limit is None:
            return
        worked = 0
        for executor in executors:
            if executor.removed_ms is None or executor.id in self._gone:
                continue
            self._gone.add(executor.id)
            if executor.id not in ours:
                self._failed_s.append(min(now, executor.removed_ms / 1000 + shift_s))
                worked += executor.completed_tasks > 0
        since_s = None if self._interval_s is None else now - self._interval_s
        counted = sum(since_s is None or at_s >= since_s for at_s in self._failed_s)
        known = None if self._tracker is None else self._tracker.count()
        before, self._count = self._count, counted if known is None else known
        if self._count - before > worked:
            self._last_s = now

    def restart(self) -> None:
        """Forget failures: a new master of a YARN application counts its own."""
        self._failed_s, self._count, self._last_s = [], 0, None

    def why_paused(self, now: Instant) -> str | None:
        """Why nothing more should be requested now; ``None`` where it may be."""
        if self.limit is None or self._last_s is None or self._count < max(1, self.limit // 2):
            return None
        ago_s = now - self._last_s
        if ago_s >= PAUSED_FOR_S:
            return None
        return (
            f"executors have failed {self._count} times, {format_duration(ago_s)} ago before doing any work, and Spark "
            f"ends the application after more than {self.limit} ({LIMIT[0]}): none is requested within "
            f"{format_duration(PAUSED_FOR_S)} of such a failure"
        )


def limit_of(master: str, conf: Mapping[str, str]) -> tuple[int | None, float | None, bool]:
    """The most failures, within how long they count, and whether the limit was chosen; ``None`` for none.

    >>> limit_of("k8s://https://10.0.0.1", {"spark.executor.instances": "4"})
    (8, None, False)
    >>> limit_of("yarn", {"spark.executor.maxNumFailures": "50", "spark.executor.failuresValidityInterval": "1h"})
    (50, 3600.0, True)
    >>> limit_of("spark://127.0.0.1:7077", {}), limit_of("yarn", {"spark.dynamicAllocation.enabled": "true"})
    ((None, None, False), (None, None, False))
    """
    if not (master.startswith("k8s") or master == "yarn"):
        return None, None, False
    chosen = next((int(conf[name]) for name in LIMIT if conf.get(name, "").isdigit()), None)
    executors = conf.get("spark.executor.instances", "0")
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        executors = conf.get("spark.dynamicAllocation.maxExecutors", "")
    if chosen is None and not executors.isdigit():
        return None, None, False  # Without an upper bound of Spark's own allocation there is no limit.
    limit = max(LEAST_DEFAULT, 2 * int(executors)) if chosen is None else chosen
    interval = next((conf[name] for name in INTERVAL if name in conf), None)
    return limit, _seconds(interval), chosen is not None


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration_s(text)
    except InputError:
        return None  # Spark has other units too: then all failures count.
