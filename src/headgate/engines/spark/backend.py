"""The calls into Spark's own scheduler, by py4j. Most of them are Spark-internal, so they are probed at the start.

They are the same on standalone, YARN and Kubernetes: the driver's allocation client, the application's status store,
and the streaming queries' own handles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headgate.core.errors import EngineError, EngineGoneError, UnsupportedEngineError
from headgate.engines.spark.snapshots import Executor

DEFAULT_PROFILE = 0
_KEYS = re.compile(r"(\w+) ->")
_NEEDED = {
    "SparkContext": ("isStopped", "statusStore", "schedulerBackend", "taskScheduler"),
    "scheduler backend": (
        "decommissionExecutor",
        "executorsPendingDecommission",
        "getRequestedTotalExecutors",
        "killExecutors",
        "requestTotalExecutors",
    ),
    "task scheduler": ("taskSetManagerForAttempt",),
}


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

    def __init__(self, spark: SparkSession, *, take_over: bool | None) -> None:
        _refuse_unscalable(spark)
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend: Any = self._context.schedulerBackend()
        self._jvm = jvm
        self.task_scheduler: Any = self._context.taskScheduler()
        _probe(
            spark.version,
            {
                "SparkContext": self._context,
                "scheduler backend": self._backend,
                "task scheduler": self.task_scheduler,
            },
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
        if not manager.isDefined():
            return
        if not take_over:
            raise UnsupportedEngineError(
                "Spark's own dynamic allocation is running in this session and would work against Headgate; set "
                "spark.dynamicAllocation.enabled=false, or pass take_over=True to have Headgate stop it."
            )
        manager.get().stop()

    def refuse_if_stopped(self) -> None:
        """Say so when the session has stopped: most calls would go on answering as if it had not."""
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
        """What the cluster is asked for; ``None`` when nobody has asked for a number.

        Spark sets this before it asks the cluster: it is no proof that the request was taken.
        """
        with spark_errors("reading the number of requested executors"):
            return self._totals().get(DEFAULT_PROFILE)

    def _totals(self) -> dict[int, int]:
        """What is asked for, by resource profile."""
        found, pairs = {}, self._backend.getRequestedTotalExecutors().iterator()
        while pairs.hasNext():
            pair = pairs.next()
            found[int(pair._1().id())] = int(pair._2())
        return found

    def configured(self) -> int | None:
        """How many executors the session was set up to start with; ``None`` where its settings do not say."""
        conf = self._spark.sparkContext.getConf()
        if (self._spark.sparkContext.master or "").startswith(("spark://", "local-cluster")):
            # A standalone cluster takes no number of executors, only one of cores.
            most, each = conf.get("spark.cores.max"), conf.get("spark.executor.cores")
            return int(most) // int(each) if most and each else None
        target = conf.get("spark.executor.instances")
        return int(target) if target else None

    def slots_per_executor(self) -> int:
        """Tasks that one executor can run at once, where the settings say; 1 otherwise."""
        conf = self._spark.sparkContext.getConf()
        return max(1, int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))

    def request(self, executors: int) -> bool:
        """Ask the cluster to keep so many; Spark replaces those that die. Does not end any that live.

        The targets of other resource profiles stay as they are. Blocks until the cluster's manager has answered.
        """
        with spark_errors(f"requesting {executors} executors"):
            return self._request_totals({**self._totals(), DEFAULT_PROFILE: executors})

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


def _probe(version: str, targets: Mapping[str, Any]) -> None:
    for owner, target in targets.items():
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
