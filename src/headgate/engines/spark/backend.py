"""The calls into Spark's own scheduler, by py4j. Most of them are Spark-internal, so they are probed at the start.

They are the same on standalone, YARN and Kubernetes: the driver's allocation client, the application's status store,
and the streaming queries' own handles.

What differs between the versions of Spark from 3.5 to 4.3 is here too. It is found by looking at what this Spark has,
never by the number of its version: methods come with a feature release, are ported back to some patch releases of older
ones, and vendors build versions of their own.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, EngineGoneError, UnsupportedEngineError
from headgate.core.types import Answer, Outcome
from headgate.core.units import format_duration
from headgate.engines.spark.snapshots import Executor

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


logger = logging.getLogger("headgate")

T = TypeVar("T")
DEFAULT_PROFILE = 0
_KEYS = re.compile(r"(\w+) ->")
_NEEDED = {
    "SparkContext": ("isStopped", "statusStore", "schedulerBackend", "taskScheduler"),
    "scheduler backend": (
        "decommissionExecutor",
        "executorsPendingDecommission",
        "killExecutors",
        "requestTotalExecutors",
    ),
    "task scheduler": ("taskSetManagerForAttempt",),
}


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Turn what py4j raises into one sentence, and distinguish a session that is gone from a call that failed."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise EngineGoneError(f"the Spark driver does not answer any more ({doing}): {error}") from error
    except Py4JError as error:
        text = str(getattr(error, "java_exception", None) or error).splitlines()[0]
        if "stopped SparkContext" in text or "SparkContext was shut down" in text:
            raise EngineGoneError(f"the Spark session has stopped ({doing}).") from error
        raise EngineError(f"Spark failed while {doing}: {text}") from error


class SparkBackend:
    """Executors of one application: list, request, drain, kill."""

    def __init__(self, spark: SparkSession, *, take_over: bool | None) -> None:
        _refuse_unscalable(spark)
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend: Any = self._context.schedulerBackend()
        self._jvm = jvm
        self.task_scheduler: Any = self._context.taskScheduler()
        methods = _probe(
            spark.version,
            {
                "SparkContext": self._context,
                "scheduler backend": self._backend,
                "task scheduler": self.task_scheduler,
            },
        )
        self._totals = RequestedTotals(self._backend, methods["scheduler backend"])
        if not self._totals.is_known:
            logger.warning(
                "Spark %s does not say how many executors were requested: Headgate does not notice when anybody else "
                "requests another number.",
                spark.version,
            )
        self.status_store: Any = self._context.statusStore()
        self.status_tracker: Any = self._context.statusTracker()
        if take_over is not None:
            self._stop_sparks_own(take_over)
        self.drains_gracefully = spark.sparkContext.getConf().get("spark.decommission.enabled", "false") == "true"
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(_scala_object(jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule"))
        self._no_hosts = _scala_object(jvm.scala.collection.immutable, "Map").empty()
        self.none = _scala_object(jvm.scala, "None")

    def parsed(self, value: Any) -> Any:
        """An object of the status store as plain data."""
        return json.loads(self._mapper.writeValueAsString(value))

    def _stop_sparks_own(self, take_over: bool) -> None:
        manager = self._context.executorAllocationManager()
        if not manager.isDefined() or is_stopped(manager.get()):
            return
        if not take_over:
            raise UnsupportedEngineError(
                "Spark's own dynamic allocation is running in this session and would work against Headgate; set "
                "spark.dynamicAllocation.enabled=false, or pass take_over=True to have Headgate stop it."
            )
        manager.get().stop()

    def failure_tracker(self) -> FailureTracker | None:
        """Where Spark counts failed executors; ``None`` where that is out of reach."""
        context = self._spark.sparkContext
        mode = context.getConf().get("spark.submit.deployMode", "client") or "client"
        return FailureTracker.found(self._jvm, self._backend, str(context.master), mode)

    def refuse_if_stopped(self) -> None:
        """Raise an error when the session has stopped: most calls would go on answering as if it had not."""
        with spark_errors("asking whether it has stopped"):
            stopped = bool(self._context.isStopped())
        if stopped:
            raise EngineGoneError("the Spark session has stopped.")

    def executors(self) -> list[Executor]:
        """All executors of the default resource profile, the dead ones that Spark remembers included."""
        with spark_errors("listing the executors"):
            listed = self.parsed(self.status_store.executorList(False))
            leaving = set(_KEYS.findall(str(self._backend.executorsPendingDecommission().toString())))
        return [
            Executor(
                id=entry["id"],
                is_active=entry["isActive"],
                cores=entry["totalCores"],
                active_tasks=entry["activeTasks"],
                completed_tasks=entry["completedTasks"],
                cached_blocks=entry["rddBlocks"],
                busy_ms=entry["totalDuration"],
                added_ms=entry["addTime"],
                removed_ms=entry["removeTime"],
                is_excluded=entry["isExcluded"],
                is_leaving=entry["id"] in leaving,
                profile=entry["resourceProfileId"],
                memory=entry["maxMemory"],
                memory_used=entry["memoryUsed"],
                gc_ms=entry["totalGCTime"],
                failed_tasks=entry["failedTasks"],
                removed_why=entry.get("removeReason") or "",
            )
            for entry in listed
            if entry["id"] != "driver" and entry["resourceProfileId"] == DEFAULT_PROFILE
        ]

    def requested(self) -> int | None:
        """The number of executors that is requested from the cluster; ``None`` before any request.

        Spark sets it before it sends the request: it is no proof that the cluster took it.
        """
        with spark_errors("reading the number of requested executors"):
            return self._totals.read().get(DEFAULT_PROFILE)

    def configured(self) -> int | None:
        """How many executors the session was set up to start with; ``None`` where its settings do not say."""
        conf = self._spark.sparkContext.getConf()
        if (self._spark.sparkContext.master or "").startswith(("spark://", "local-cluster")):
            # A standalone cluster takes no number of executors, only one of cores.
            most, each = conf.get("spark.cores.max"), conf.get("spark.executor.cores")
            return int(most) // int(each) if most and each else None
        target = conf.get("spark.executor.instances")
        return int(target) if target else None

    def request(self, executors: int) -> bool:
        """Request so many in all; Spark replaces those that die. Does not end any that live.

        The targets of other resource profiles stay as they are. Blocks until the cluster's manager has answered.
        """
        with spark_errors(f"requesting {executors} executors"):
            return self._request_totals({**self._totals.read(), DEFAULT_PROFILE: executors})

    def _request_totals(self, totals: Mapping[int, int]) -> bool:
        """Ask for so many of each resource profile: one that is not named would lose its executors."""
        maps = [self._jvm.java.util.HashMap() for _ in range(3)]
        for profile, total in totals.items():
            for java_map, value in zip(maps, (total, 0, self._no_hosts), strict=True):
                java_map.put(profile, value)
        to_scala = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
        return bool(self._backend.requestTotalExecutors(*(to_scala(java_map) for java_map in maps)))

    def drain(self, executor_id: str) -> bool:
        """Tell an executor to finish its tasks, hand its blocks over and leave."""
        with spark_errors(f"decommissioning executor {executor_id}"):
            info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("scaled in by Headgate", self.none)
            return bool(self._backend.decommissionExecutor(executor_id, info, False, False))

    def kill(self, executor_ids: Sequence[str]) -> None:
        """End executors now; tasks they run are run again elsewhere."""
        with spark_errors(f"killing executors {', '.join(executor_ids)}"):
            ids = self._jvm.java.util.ArrayList()
            for executor_id in executor_ids:
                ids.add(executor_id)
            sequence = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ids)
            self._backend.killExecutors(sequence, False, False, True)


def slots_per_executor(spark: SparkSession) -> int:
    """Tasks that one executor can run at once, where the settings say; 1 otherwise."""
    conf = spark.sparkContext.getConf()
    return max(1, int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))


def own_session(job: Any) -> Any:
    """The session whose executors can be scaled from here.

    One of Spark Connect has such a one behind it where the program is the driver itself (``spark.api.mode=connect``).
    """
    if not type(job).__module__.startswith("pyspark.sql.connect"):
        return job
    behind = getattr(SparkSession, "_instantiatedSession", None)
    if behind is None or getattr(getattr(job, "client", None), "host", None) not in _THIS_MACHINE:
        raise UnsupportedEngineError(
            "this is a Spark Connect session, whose driver is the server, and Headgate must run there: start the "
            "server as a program that makes its session with SparkSession.builder.config('spark.plugins', "
            "'org.apache.spark.sql.connect.SparkConnectPlugin'), without remote(...), and calls headgate.autoscale "
            "on it; it then scales what all remote sessions run."
        )
    return behind


_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def _refuse_unscalable(spark: SparkSession) -> None:
    master = spark.sparkContext.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise UnsupportedEngineError(
            f"the session's master is {master!r}, which runs all tasks inside the driver and has no executors to "
            "scale; use a cluster (spark://..., yarn, k8s://...), local-cluster[1,8,1024] for a trial, or start one on "
            "this machine with: headgate cluster up."
        )


def _probe(version: str, targets: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The methods of each target; a session that lacks one that is needed is refused."""
    found = {}
    for owner, target in targets.items():
        with spark_errors("looking at its scheduler"):
            methods = found[owner] = method_names(target)
        missing = [name for name in _NEEDED[owner] if name not in methods]
        if missing:
            raise UnsupportedEngineError(
                f"Spark {version}'s {owner} ({target.getClass().getName()}) has no {', '.join(missing)}; Headgate "
                "needs a cluster whose scheduler can add and remove executors, and was tried with Spark 3.5 to 4.3."
            )
    return found


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


ANSWER_WITHIN_S = 5.0


def started(call: Callable[[], T]) -> Future[T]:
    """Start a request to the cluster, which may take long to answer, on a thread that does not hold up the exit."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised again where the answer is taken
            future.set_exception(error)

    threading.Thread(target=run, name="headgate-request", daemon=True).start()
    return future


class Kills:
    """Kills executors, which is a request to the cluster too."""

    def __init__(self, kill: Callable[[Sequence[str]], None], *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._kill = kill
        self._answer_within_s = answer_within_s
        self._open: Future[None] | None = None

    def end(self, executors: Sequence[str]) -> str:
        """Request that executors be killed, and return a message; the caller repeats it as long as they are there."""
        names = ", ".join(executors)
        if self._open is not None and not self._open.done():
            return f"the cluster has not answered yet that executor {names} is to be killed"
        self._open = started(partial(self._kill, executors))
        if wait([self._open], self._answer_within_s).not_done:
            waited = format_duration(self._answer_within_s)
            return f"the cluster has not answered within {waited} that executor {names} is to be killed"
        self._open.result()
        return f"killed executor {names}"


class Requests:
    """The requests of one application, one at a time."""

    def __init__(
        self, ask: Callable[[int], bool], *, confirmed: int | None = None, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._ask = ask
        self._answer_within_s = answer_within_s
        self._open: Future[bool] | None = None
        self._last_request = 0
        self.confirmed = confirmed
        """The total that the cluster has agreed to; ``None`` before the first request."""

    def sync(self, requested: int | None) -> bool:
        """Take in the total that Spark has now; return whether somebody else has changed or forgotten it.

        A new master of a YARN application in client mode clears it and requests what the job was started with.
        """
        if self._open is not None or requested in (self.confirmed, self._last_request):
            return False
        self.confirmed = requested
        return True

    def ask(self, executors: int) -> Answer | None:
        """Request a total; return ``None`` when the cluster agreed, otherwise the answer to report."""
        if self._open is not None and not self._finish(self._open):
            detail = f"the cluster has not answered the request for {self._last_request} executors yet"
            return Answer(Outcome.FAILED, executors, detail)
        if self.confirmed == executors:
            return None
        request = self._open = started(partial(self._ask, executors))
        self._last_request = executors
        if not self._finish(request, self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            detail = f"the cluster has not answered a request for {executors} executors within {waited}"
            return Answer(Outcome.FAILED, executors, detail)
        error = request.exception()
        if isinstance(error, EngineGoneError):
            raise error
        if error is not None:
            text = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
            return Answer(Outcome.FAILED, executors, text)
        if not request.result():
            return Answer(Outcome.REFUSED, executors, f"the cluster did not take a request for {executors} executors")
        return None

    def _finish(self, request: Future[bool], timeout_s: float = 0.0) -> bool:
        """Return whether a request was answered, and note what was confirmed."""
        if wait([request], timeout_s).not_done:
            return False
        self._open = None
        if request.exception() is None and request.result():
            self.confirmed = self._last_request
        return True
