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
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psutil

from headgate.core.errors import EngineError, InputError
from headgate.local import warden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_MEMORY_MB = 512
STATE_VERSION = 1
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVMs that live for minutes: without the second compiler an executor takes about half the CPU time to start."""


@dataclass(frozen=True)
class ClusterState:
    """What is written about a detached cluster, so that other commands find it."""

    warden_pid: int
    master_url: str
    web_url: str
    directory: str
    version: int = STATE_VERSION


class LocalCluster:
    """Real executors on one machine. ``slots`` is how many one-core executors the worker offers at most."""

    def __init__(self, slots: int = 12, executor_memory_mb: int = EXECUTOR_MEMORY_MB) -> None:
        if slots < 1:
            raise InputError(f"a cluster with {slots} slots is not possible; at least 1 is needed.")
        self._slots = slots
        self._executor_memory_mb = executor_memory_mb
        self._process: subprocess.Popen[str] | None = None
        self._plan: warden.Plan | None = None

    @property
    def master_url(self) -> str:
        if self._plan is None:
            raise EngineError("the local cluster is not running; start it first.")
        return self._plan.master_url

    @property
    def directory(self) -> Path:
        """Logs and scratch space; it goes away with the cluster."""
        if self._plan is None:
            raise EngineError("the local cluster is not running; start it first.")
        return Path(self._plan.directory)

    def start(self, *, detached: bool = False) -> ClusterState:
        directory = tempfile.mkdtemp(prefix="headgate-cluster-")
        port, web_port = _free_ports(2)
        # Executors carry overhead beside their heap; the worker only counts what it is asked for, so it may offer more.
        memory_mb = self._slots * (self._executor_memory_mb + 512)
        plan = warden.Plan(spark_home(), java(), directory, port, web_port, self._slots, memory_mb, detached)
        with Path(directory, "warden.log").open("w") as log:
            process = subprocess.Popen(
                warden.command(plan),
                stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            answer: dict[str, Any] = json.loads(_first_line(process) or "{}")
        except BaseException:
            # Interrupted while starting: the warden sees its input close, or is told, and cleans up.
            _end(process)
            raise
        if "master" not in answer:
            _end(process)
            problem = answer.get("error") or warden.last_line(Path(directory, "warden.log"))
            shutil.rmtree(directory, ignore_errors=True)
            raise EngineError(f"the local cluster did not start: {problem}")
        self._process, self._plan = process, plan
        return ClusterState(process.pid, plan.master_url, plan.web_url, plan.directory)

    def stop(self) -> None:
        """Take everything down; calling it twice is fine."""
        if self._process is not None:
            _end(self._process)
        self._process = self._plan = None

    def session(self, name: str, executors: int = 1, settings: Mapping[str, str] | None = None) -> SparkSession:
        """A session on this cluster that keeps its size until ``autoscale(..., take_over=True)`` takes it over."""
        from pyspark.sql import SparkSession

        # Spark starts Python sources and workers by this name; they must find what this process finds.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.appName(name).master(self.master_url)
        for key, value in (self.settings(executors) | dict(settings or {})).items():
            builder = builder.config(key, value)
        with _stderr_to(self.directory / "driver.log"):
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        # It has asked for the first executors; from here on it would act by itself.
        session.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        return session

    def settings(self, executors: int = 1) -> dict[str, str]:
        """Spark settings for a session on this cluster that starts with so many one-core executors."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.cores": "1",
            "spark.executor.memory": f"{self._executor_memory_mb}m",
            **starting_size(executors),
            **graceful_removal(),
        }

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Processes started meanwhile write their errors to a file: a driver's log has no place in a live view."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


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


def spark_home() -> str:
    """The folder of the installed pyspark package, which is a whole Spark distribution."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise InputError("pyspark is not installed; install it with: pip install 'headgate[spark]'.")
    return str(Path(spec.origin).parent)


def java() -> str:
    """The java to run Spark with."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME {home!r}" if home else "on the PATH"
        raise InputError(f"no java was found {where}; Spark needs Java 17 or newer: install it or set JAVA_HOME.")
    return found


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(warden.STOP_TIMEOUT_S + 5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def state_file() -> Path:
    """Where the one detached cluster of a user is written down."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base, "headgate", "cluster.json")


def up(slots: int) -> ClusterState:
    """Start a cluster that goes on after this process; there is one at a time."""
    if (running := status()) is not None:
        raise InputError(f"a cluster is up already at {running.master_url}; stop it first with: headgate cluster down.")
    state = LocalCluster(slots).start(detached=True)
    path = state_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(state)))
    return state


def status() -> ClusterState | None:
    """The detached cluster, if it is up; a state file left by one that is gone is removed."""
    try:
        state = ClusterState(**json.loads(state_file().read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise InputError(f"the cluster's state file {state_file()} cannot be read ({error}); delete it.") from error
    if _is_warden(state.warden_pid):
        return state
    state_file().unlink(missing_ok=True)
    shutil.rmtree(state.directory, ignore_errors=True)
    return None


def down() -> ClusterState | None:
    """Stop the detached cluster; gives what was stopped."""
    state = status()
    if state is None:
        return None
    os.kill(state.warden_pid, signal.SIGTERM)
    deadline_s = time.monotonic() + warden.STOP_TIMEOUT_S + 5
    while _is_warden(state.warden_pid) and time.monotonic() < deadline_s:
        time.sleep(warden.POLL_S)
    if _is_warden(state.warden_pid):
        os.killpg(state.warden_pid, signal.SIGKILL)
    state_file().unlink(missing_ok=True)
    return state


def _is_warden(pid: int) -> bool:
    # The number may belong to another process by now, so the command line is asked as well.
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return "headgate.local.warden" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    return False
