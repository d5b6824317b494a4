"""A real Spark cluster on this machine: a standalone master and one worker, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalCluster() as cluster:
        spark = cluster.session("my job")

``detached`` clusters outlive their starter; they are found again by their state file (``headgate cluster``).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError
from headgate.local.machine import LOOPBACK, MOST_SLOTS, QUICK_START, free_ports, java, spark_home
from headgate.local.server_plan import ServerProcess
from headgate.local.servers import Detached, LocalServers, ServerState
from headgate.workloads.traces import VARIABLE, trace_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkPlan:
    """How a cluster is started, on ports that the caller has found free."""

    spark_home: str
    java: str
    directory: str
    port: int
    web_port: int
    cores: int
    memory_mb: int
    last_words: str | None

    @property
    def master_url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def web_url(self) -> str:
        return f"http://{LOOPBACK}:{self.web_port}"

    def servers(self) -> Iterator[ServerProcess]:
        master = ("--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self.web_port))
        yield self._server("master", "org.apache.spark.deploy.master.Master", *master, workers=0)
        worker = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--work-dir", f"{self.directory}/work")
        size = ("--cores", str(self.cores), "--memory", f"{self.memory_mb}m")
        yield self._server(
            "worker", "org.apache.spark.deploy.worker.Worker", *worker, *size, self.master_url, workers=1
        )

    def _server(self, name: str, main_class: str, *arguments: str, workers: int) -> ServerProcess:
        local = Path(self.directory, "local")
        local.mkdir(exist_ok=True)
        environment = os.environ | {
            "SPARK_HOME": self.spark_home,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK_START),
            "JAVA_HOME": str(Path(self.java).resolve().parent.parent),
        }
        command = (f"{self.spark_home}/bin/spark-class", main_class, *arguments)
        return ServerProcess(name, command, partial(self._has_workers, workers), environment)

    def _has_workers(self, count: int) -> bool:
        """Whether the master answers and says so."""
        try:
            with urllib.request.urlopen(f"{self.web_url}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"]) >= count
        except (OSError, ValueError):
            return False


EXECUTOR_MEMORY_MB = 512


@dataclass(frozen=True)
class ClusterState(ServerState):
    master_url: str
    web_url: str

    @property
    def address(self) -> str:
        return self.master_url


DETACHED = Detached("cluster", "cluster", ClusterState)
status, down = DETACHED.status, DETACHED.down


class LocalCluster(LocalServers[SparkPlan, ClusterState]):
    """Real executors on one machine. ``slots`` is how many one-core executors the worker offers at most."""

    def __init__(self, slots: int = 12, executor_memory_mb: int = EXECUTOR_MEMORY_MB) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise InputError(f"a cluster with {slots} slots is not possible; 1 to {MOST_SLOTS} are.")
        self._slots = slots
        self._executor_memory_mb = executor_memory_mb
        super().__init__("cluster", "the local cluster")

    @property
    def master_url(self) -> str:
        return self._running().master_url

    def start(self, *, detached: bool = False) -> ClusterState:
        home, executable = spark_home(), java(needed_by="Spark")
        port, web_port = free_ports(2)
        plan = SparkPlan(
            spark_home=home,
            java=executable,
            directory=self._make_directory(),
            port=port,
            web_port=web_port,
            cores=self._slots,
            # Executors need memory besides their heap; the worker counts only requested memory, so it may offer more.
            memory_mb=self._slots * (self._executor_memory_mb + 512),
            last_words=str(DETACHED.last_words) if detached else None,
        )
        warden_pid = self._run(plan)
        return ClusterState(warden_pid, plan.directory, plan.master_url, plan.web_url)

    def session(self, name: str, executors: int = 1, settings: Mapping[str, str] | None = None) -> SparkSession:
        """A session on this cluster that keeps its size until ``autoscale(..., take_over=True)`` takes it over."""
        chosen = self.settings(executors) | dict(settings or {})
        return open_session(self.master_url, name, chosen, self.directory / "driver.log")

    def settings(self, executors: int = 1) -> dict[str, str]:
        """Spark settings for a session on this cluster that starts with so many one-core executors."""
        return local_settings(executors, self._executor_memory_mb)


def open_session(master_url: str, name: str, settings: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """Return a session on a cluster that keeps its ``starting_size`` until an autoscaler takes it over.

    ``log`` gets the driver's output if given.
    """
    session = plain_session(master_url, name, settings, log)
    # It has requested the first executors; from here on it would scale by itself.
    session.sparkContext._jsc.sc().executorAllocationManager().get().stop()
    return session


def plain_session(master_url: str, name: str, settings: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """Return a session on any cluster, without any control of its size."""
    from pyspark.sql import SparkSession

    # Spark starts Python sources and workers by this name; they must find what this process finds.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(name).master(master_url)
    for key, value in {**_traces(), **settings}.items():
        builder = builder.config(key, value)
    with contextlib.nullcontext() if log is None else _stderr_to(log):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def submit(
    master: str,
    program: Path | str,
    arguments: Sequence[str],
    name: str,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
) -> None:
    """Submit a Python program in cluster mode; an ``EngineError`` has the last line of one that was not taken."""
    options = [option for key, value in settings.items() for option in ("--conf", f"{key}={value}")]
    command = [f"{spark_home()}/bin/spark-submit", "--master", master, "--deploy-mode", "cluster", "--name", name]
    done = subprocess.run(
        [*command, *options, str(program), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it printed nothing"]
        raise EngineError(f"spark-submit ended with exit code {done.returncode}: {lines[-1]}")


def _traces() -> dict[str, str]:
    """Return the setting by which executors, which run in other folders, find the public traces of some loads."""
    try:
        return {f"spark.executorEnv.{VARIABLE}": str(trace_folder().resolve())}
    except InputError:
        return {}


def local_settings(executors: int, executor_memory_mb: int = EXECUTOR_MEMORY_MB) -> dict[str, str]:
    """Spark settings for a session whose driver and one-core executors are all on this machine."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(QUICK_START),
        "spark.executor.extraJavaOptions": " ".join(QUICK_START),
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{executor_memory_mb}m",
        **starting_size(executors),
        **graceful_removal(),
    }


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send the errors of processes started in the block to a file: a driver's log would disturb a live view."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def starting_size(executors: int) -> dict[str, str]:
    """Settings that make a standalone cluster start with so many executors instead of all it has.

    Standalone ignores ``spark.executor.instances`` unless dynamic allocation is on, so it is switched on for the start
    and must be taken over (``autoscale(..., take_over=True)``) before it acts by itself.
    """
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": str(executors),
        "spark.dynamicAllocation.minExecutors": "1",
    }


def graceful_removal() -> dict[str, str]:
    """Settings with which an executor drains before it leaves, and leaves soon."""
    return {
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "1s",
        "spark.standalone.executorRemoveDelayOnDisconnection": "100ms",
    }


def up(slots: int) -> ClusterState:
    """Start a cluster that outlives this process; only one may be up."""
    return DETACHED.up(LocalCluster(slots))
