"""The calls into Spark's own scheduler, by py4j. Most of them are Spark-internal, so they are probed at the start.

They are the same on standalone, YARN and Kubernetes: the driver's allocation client, the application's status store,
and the streaming queries' own handles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, EngineGoneError, UnsupportedEngineError

_NEEDED = {
    "SparkContext": ("requestTotalExecutors", "statusStore", "schedulerBackend"),
    "scheduler backend": ("getRequestedTotalExecutors", "decommissionExecutor", "killExecutors"),
}


@dataclass(frozen=True, slots=True)
class Executor:
    """What the status store knows of one executor."""

    id: str
    is_active: bool
    cores: int
    active_tasks: int
    completed_tasks: int
    cached_blocks: int
    busy_ms: int
    """Task time since the executor started; it grows when tasks end."""
    added_ms: int
    removed_ms: int | None
    memory: int = 0
    """Bytes for storage."""
    memory_used: int = 0
    gc_ms: int = 0
    failed_tasks: int = 0


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Turns what py4j raises into one sentence, and tells a session that is gone from a call that failed."""
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
    """Executors of one application: list, ask for, drain, kill."""

    def __init__(self, spark: SparkSession, *, take_over: bool) -> None:
        _refuse_unscalable(spark)
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend: Any = self._context.schedulerBackend()
        self._jvm = jvm
        _probe(spark.version, self._context, self._backend)
        self._stop_sparks_own(take_over)
        self.drains_gracefully = spark.sparkContext.getConf().get("spark.decommission.enabled", "false") == "true"
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(_scala_object(jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule"))
        self._no_hosts = _scala_object(jvm.scala.collection.immutable, "Map").empty()
        self._none = _scala_object(jvm.scala, "None")

    def _stop_sparks_own(self, take_over: bool) -> None:
        manager = self._context.executorAllocationManager()
        if not manager.isDefined():
            return
        if not take_over:
            raise UnsupportedEngineError(
                "Spark's own dynamic allocation is running in this session and would work against Headgate; set "
                "spark.dynamicAllocation.enabled=false, or pass take_over=True to have Headgate stop it."
            )
        manager.get().stop()

    def executors(self) -> list[Executor]:
        """All executors, the dead ones that Spark remembers included."""
        with spark_errors("listing the executors"):
            listed = json.loads(self._mapper.writeValueAsString(self._context.statusStore().executorList(False)))
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
                memory=entry["maxMemory"],
                memory_used=entry["memoryUsed"],
                gc_ms=entry["totalGCTime"],
                failed_tasks=entry["failedTasks"],
            )
            for entry in listed
            if entry["id"] != "driver"
        ]

    def requested(self) -> int | None:
        """What the cluster is asked for; ``None`` when nobody has asked for a number."""
        with spark_errors("reading the number of requested executors"):
            counts = self._backend.getRequestedTotalExecutors().valuesIterator()
            total = None
            while counts.hasNext():
                total = (total or 0) + int(counts.next())
            return total

    def request(self, executors: int) -> bool:
        """Ask the cluster to keep so many; Spark replaces those that die. Does not end any that live."""
        with spark_errors(f"requesting {executors} executors"):
            return bool(self._context.requestTotalExecutors(executors, 0, self._no_hosts))

    def drain(self, executor_id: str) -> bool:
        """Tell an executor to finish its tasks, hand its blocks over and leave."""
        with spark_errors(f"decommissioning executor {executor_id}"):
            info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("scaled in by Headgate", self._none)
            return bool(self._backend.decommissionExecutor(executor_id, info, False, False))

    def kill(self, executor_ids: Sequence[str]) -> None:
        """End executors now; tasks they run are run again elsewhere."""
        with spark_errors(f"killing executors {', '.join(executor_ids)}"):
            ids = self._jvm.java.util.ArrayList()
            for executor_id in executor_ids:
                ids.add(executor_id)
            sequence = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ids)
            self._backend.killExecutors(sequence, False, False, True)

    def queries(self) -> dict[str, float]:
        """The active streaming queries by id, with their trigger intervals in seconds (0: as fast as possible)."""
        with spark_errors("listing the streaming queries"):
            return {str(query.id): _trigger_interval_s(query) for query in self._spark.streams.active}

    def is_busy(self, query_id: str) -> bool:
        """Whether a query is in the middle of a batch."""
        with spark_errors("asking for a query's status"):
            query = self._spark.streams.get(query_id)
            return query is not None and bool(query.status["isTriggerActive"])


def _refuse_unscalable(spark: SparkSession) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedEngineError(
            "this is a Spark Connect session, whose driver is elsewhere; Headgate must run in the driver: create the "
            "session there with SparkSession.builder.master(...), without remote(...)."
        )
    master = spark.sparkContext.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise UnsupportedEngineError(
            f"the session's master is {master!r}, which runs all tasks inside the driver and has no executors to "
            "scale; use a cluster (spark://..., yarn, k8s://...), local-cluster[1,8,1024] for a trial, or start one on "
            "this machine with: headgate cluster up."
        )


def _probe(version: str, context: Any, backend: Any) -> None:
    for owner, target in (("SparkContext", context), ("scheduler backend", backend)):
        with spark_errors("looking at its scheduler"):
            methods = {method.getName() for method in target.getClass().getMethods()}
        missing = [name for name in _NEEDED[owner] if name not in methods]
        if missing:
            raise UnsupportedEngineError(
                f"Spark {version}'s {owner} ({target.getClass().getName()}) has no {', '.join(missing)}; Headgate "
                "needs a cluster whose scheduler can add and remove executors, and was tried with Spark 4.3."
            )


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _trigger_interval_s(query: Any) -> float:
    try:
        trigger = query._jsq.streamingQuery().trigger()
        return float(trigger.intervalMs()) / 1000
    except Py4JError:
        return 0.0  # Continuous, once and available-now triggers have no interval.
