"""The calls into Spark's own scheduler, by py4j. Most of them are Spark-internal, so they are probed at the start.

They are the same on standalone, YARN and Kubernetes: the driver's allocation client, the application's status store,
and the streaming queries' own handles.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, EngineGoneError, UnsupportedEngineError
from headgate.core.types import Answer, Batch, Instant, Outcome, Startup
from headgate.core.units import format_duration
from headgate.engines.spark.snapshots import Executor
from headgate.engines.spark.versions import FailureTracker, RequestedTotals, is_stopped, method_names

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


ANSWER_WITHIN_S = 5.0


def _started(call: Callable[[], T]) -> Future[T]:
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
        self._open = _started(partial(self._kill, executors))
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
        request = self._open = _started(partial(self._ask, executors))
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
