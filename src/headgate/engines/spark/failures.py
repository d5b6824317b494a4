"""How many executors may fail before Spark ends the application, and how many have.

On Kubernetes and YARN, Spark ends an application after more than ``spark.executor.maxNumFailures`` failed executors; a
pod that the cluster refuses to create is such a failure. Without that setting the limit is twice the number of
executors that the application was started with, at least 3, over its whole life: a job that grows into a quota, or just
lives for long, is ended by it. A limit that nobody has chosen is therefore raised where Spark can be reached. Near any
other, after an executor has failed before it had done anything, no more are requested for a while.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from headgate.core.errors import InputError
from headgate.core.types import Event, Instant, Severity
from headgate.core.units import format_duration, parse_duration_s
from headgate.engines.spark.snapshots import Executor
from headgate.engines.spark.versions import FailureTracker

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
