"""What differs between the versions of Spark from 3.5 to 4.3, in one place.

Everything is found by looking at what this Spark has, never by the number of its version: methods come with a feature
release, are ported back to some patch releases of older ones, and vendors build versions of their own.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

REQUESTED_METHOD = "getRequestedTotalExecutors"
"""Of the scheduler backend: in 4.0.5, 4.1.4, 4.2.1 and 4.3.0, not in 3.5, 4.0.4, 4.1.3 and 4.2.0."""
REQUESTED_FIELD = "requestedTotalExecutorsPerResourceProfile"
CONTEXT_METHOD = "getLatestExecutionContext"
"""Of a query: since 4.0. Before, a query has no more than one batch at a time and is its own context."""
TRIGGERED_METHOD = "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"


def method_names(target: Any) -> frozenset[str]:
    """The names of the public methods of a Java object, in one call or two."""
    return frozenset(dir(target))


def private_field(target: Any, name: str) -> Any:
    """The value of a field of a Java object that Spark keeps to itself; ``None`` where there is none of the name."""
    kind = target.getClass()
    while kind is not None:
        try:
            field = kind.getDeclaredField(name)
        except Py4JError:
            kind = kind.getSuperclass()
            continue
        field.setAccessible(True)
        return field.get(target)
    return None


def is_stopped(manager: Any) -> bool:
    """Whether Spark's own dynamic allocation was stopped, by Headgate before or by anybody else: it stays there."""
    executor = private_field(manager, "executor")
    return executor is not None and bool(executor.isShutdown())


class RequestedTotals:
    """How many executors were last requested of each resource profile, as Spark's scheduler backend has it."""

    def __init__(self, backend: Any, methods: frozenset[str]) -> None:
        self._backend = backend
        self._field = None if REQUESTED_METHOD in methods else private_field(backend, REQUESTED_FIELD)
        self.is_known = REQUESTED_METHOD in methods or self._field is not None

    def read(self) -> dict[int, int]:
        """By resource profile; nothing where this Spark does not say."""
        if not self.is_known:
            return {}
        totals = self._backend.getRequestedTotalExecutors() if self._field is None else self._field
        found, pairs = {}, totals.iterator()
        while pairs.hasNext():
            pair = pairs.next()
            found[int(pair._1().id())] = int(pair._2())
        return found


class QueryContext:
    """The newest batch of a query where Spark has no object for it: before 4.0.

    A batch begins where the one before it ended, which is what was committed then.
    """

    def __init__(self, query: Any) -> None:
        self._query = query
        self.startOffsets = query.committedOffsets
        self.endOffsets = query.availableOffsets
        self.latestOffsets = query.latestOffsets
        self.batchId = query.currentBatchId
        self.currentTriggerStartTimestamp = getattr(query, TRIGGERED_METHOD)


def context_of(query: Any, methods: frozenset[str]) -> Any:
    """The newest batch of a query; ``None`` while the query is being set up."""
    return query.getLatestExecutionContext() if CONTEXT_METHOD in methods else QueryContext(query)


def setting_of(query: Any, name: str, default: str) -> str:
    """A setting of the session that a query runs in; ``default`` where it is not set and this Spark has none."""
    try:
        return str(query.sparkSession().conf().get(name))
    except Py4JError:
        return default


FILES = "FileStreamSource"
"""The class of sources of files, of whatever format."""


def source_of(leaf: Any) -> tuple[str, dict[str, str]]:
    """The format and the options of a source, by the leaf of a query's plan that reads it."""
    if leaf.getClass().getSimpleName() == "StreamingRelationV2":
        options = leaf.extraOptions().asCaseSensitiveMap()
        return str(leaf.sourceName()), {str(key): str(options[key]) for key in options}
    if leaf.getClass().getSimpleName() != "StreamingRelation":
        return str(leaf.getClass().getSimpleName()), {}
    found, pairs = {}, leaf.dataSource().options().iterator()
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1())] = str(pair._2())
    return str(leaf.dataSource().className()), found


def files_per_batch(source: Any) -> int | None:
    """The most files of a batch; ``None`` for a source of anything else, or one without that limit."""
    if source.getClass().getSimpleName() != FILES:
        return None
    limit = private_field(source, "maxFilesPerBatch")
    return int(limit.get()) if limit is not None and limit.isDefined() else None


def unread_files(source: Any) -> tuple[int, float | None]:
    """How many files a source has listed and not given to a batch, and the wall time of the first of them.

    Spark drops the rest of a listing where it is less than a fifth of a batch: that counts as none.
    """
    files = private_field(source, "unreadFiles")
    if files is None or files.isEmpty():
        return 0, None
    first = files.head()
    written_ms = first.timestamp() if "timestamp" in method_names(first) else first._2()
    return int(files.size()), int(written_ms) / 1000


class FailureTracker:
    """Where Spark counts the failures of executors, and what it compares them with: both private."""

    def __init__(self, limited: Any, counter: Any) -> None:
        self._limited = limited
        self._counter = counter

    @classmethod
    def found(cls, jvm: Any, backend: Any, master: str, deploy_mode: str) -> FailureTracker | None:
        """The one of a session; ``None`` where it is in another process, or not to be found in this version."""
        try:
            if master.startswith("k8s"):
                for name in _LIMITED_ON_KUBERNETES:
                    manager = private_field(backend, name)
                    if manager is not None and "getNumExecutorsFailed" in method_names(manager):
                        return cls(manager, manager)
            elif master == "yarn" and deploy_mode == "cluster":
                holder = getattr(getattr(jvm.org.apache.spark.deploy.yarn, "ApplicationMaster$"), "MODULE$")
                main = private_field(holder, f"{_YARN}$master")
                allocator = None if main is None else private_field(main, f"{_YARN}$allocator")
                if allocator is not None:
                    return cls(main, allocator)
        except (Py4JError, TypeError):
            pass  # Another version keeps them elsewhere: then failures are counted by who has left.
        return None

    def count(self) -> int | None:
        """The failures that count now; ``None`` where Spark does not say."""
        try:
            return int(self._counter.getNumExecutorsFailed())
        except Py4JError:
            return None

    def raise_to(self, limit: int, interval_s: float) -> bool:
        """Let Spark stand more failures, and forget each after some time; whether that was possible."""
        try:
            _set(self._limited, "maxNumExecutorFailures", "setInt", limit)
            tracker = self._counter.failureTracker()
            _set(tracker, "executorFailuresValidityInterval", "setLong", int(1000 * interval_s))
        except (Py4JError, TypeError):
            return False
        return True


_LIMITED_ON_KUBERNETES = ("lifecycleManager", "lifecycleEventHandler", "podAllocator")
"""Fields of the scheduler backend: since 4.2, in 4.0 and 4.1, in 3.5."""
_YARN = "org$apache$spark$deploy$yarn$ApplicationMaster$"


def _set(target: Any, name: str, setter: str, value: int) -> None:
    field = target.getClass().getDeclaredField(name)
    field.setAccessible(True)
    getattr(field, setter)(target, value)
