"""A real Flink cluster on this machine: a JobManager and TaskManagers, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalFlink(taskmanagers=2, slots=2) as flink:
        flink.cluster.add_taskmanager()

``detached`` clusters outlive their starter; they are found again by their state file (``headgate flink``). Any process
of the same user that has a cluster's address can add TaskManagers and remove them: ``FlinkCluster.at(url)``.

A JobManager or a TaskManager that ends by itself is started again, and jobs go on from their last checkpoint.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError, InputError
from headgate.local import flink_settings
from headgate.local.flink_rest import flink_response
from headgate.local.flink_settings import DIRECTORY_KEY
from headgate.local.machine import LOOPBACK, QUICK_START, flink_home, free_ports, java
from headgate.local.server_plan import ServerProcess, log_file
from headgate.local.servers import Detached, LocalServers, ServerState

WANTED = "taskmanagers"
TASKMANAGER = "taskmanager-"
LEAVING_SUFFIX = ".left"
"""The suffix of the file of a TaskManager that is to leave; its name is not used again."""


@dataclass(frozen=True)
class FlinkPlan:
    """How a cluster is started, on ports that the caller has found free. ``slots`` is per TaskManager."""

    flink_home: str
    java: str
    directory: str
    port: int
    web_port: int
    coordinator_port: int
    slots: int
    last_words: str | None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.web_port}"

    def servers(self) -> Iterator[ServerProcess]:
        self._write_settings()
        coordinator = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
        small = (f"-Xmx{flink_settings.COORDINATOR_HEAP_MB}m",)
        file = str(Path(self.directory, "coordinator.cfg"))
        yield self._server("coordinator", small, coordinator, file, is_up=lambda: _listens(self.coordinator_port))
        jobmanager = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        heap = (f"-Xmx{flink_settings.JOBMANAGER_HEAP_MB}m", *flink_settings.OPENS)
        where = ("--configDir", self.directory)
        yield self._server("jobmanager", heap, jobmanager, *where, is_up=self._answers, is_restarted=True)

    def wanted(self) -> Iterator[ServerProcess]:
        taskmanager = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        options = (*flink_settings.TaskManagerMemory(self.slots).java_options(), *flink_settings.OPENS)
        for name in wanted_taskmanagers(self.directory):
            arguments = ("--configDir", self.directory, "-D", f"taskmanager.resource-id={name}")
            yield self._server(name, options, taskmanager, *arguments, is_restarted=True)

    def _write_settings(self) -> None:
        folder = Path(self.directory)
        ports = (self.web_port, self.port, self.coordinator_port)
        settings = flink_settings.settings(self.directory, *ports, self.slots)
        (folder / "config.yaml").write_text(json.dumps(settings, indent=1))  # JSON is YAML.
        (folder / "log4j.properties").write_text(flink_settings.LOGGING)
        data, host, port = folder / "coordinator", LOOPBACK, self.coordinator_port
        (folder / "coordinator.cfg").write_text(flink_settings.COORDINATOR.format(data=data, host=host, port=port))

    def _server(
        self,
        name: str,
        options: tuple[str, ...],
        main_class: str,
        *arguments: str,
        is_up: Callable[[], bool] | None = None,
        is_restarted: bool = False,
    ) -> ServerProcess:
        logging = (
            f"-Dlog4j.configurationFile={self.directory}/log4j.properties",
            f"-Dlog.file={log_file(self.directory, name)}",
        )
        command = [self.java, *options, *QUICK_START, *logging, main_class, *arguments]
        return ServerProcess(name, command, is_up, self._environment(), is_restarted)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "CLASSPATH": f"{self.flink_home}/lib/*",
            "FLINK_CONF_DIR": self.directory,
            "FLINK_LIB_DIR": f"{self.flink_home}/lib",
            "FLINK_PLUGINS_DIR": f"{self.flink_home}/plugins",
        }

    def _answers(self) -> bool:
        try:
            return "taskmanagers" in flink_response(self.url, "overview")
        except EngineError:
            return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=5).close()
    except OSError:
        return False
    return True


# --------------------------------------------------------------------------------------------- wanted TaskManagers


def wanted_taskmanagers(directory: str) -> list[str]:
    """Return the TaskManagers that are to run in the cluster of this folder, in the order of their requests."""
    numbers = sorted(number for number, left in _numbers(directory) if not left)
    return [f"{TASKMANAGER}{number}" for number in numbers]


def want_taskmanager(directory: str) -> str:
    """Request another TaskManager; return its name, which is also Flink's id for it."""
    folder = Path(directory, WANTED)
    folder.mkdir(exist_ok=True)
    number = 1 + max((number for number, _ in _numbers(directory)), default=0)
    while True:
        name = f"{TASKMANAGER}{number}"
        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:  # Another process requested one at the same moment.
            number += 1
        else:
            return name


def leave_taskmanager(directory: str, name: str) -> None:
    """Have the warden stop one; fine when it is not wanted any more."""
    path = Path(directory, WANTED, name)
    path.rename(f"{path}{LEAVING_SUFFIX}")


def _numbers(directory: str) -> Iterator[tuple[int, bool]]:
    """Yield the number of each TaskManager requested so far, and whether it is to leave."""
    for path in Path(directory, WANTED).glob(f"{TASKMANAGER}*"):
        yield int(path.name.removeprefix(TASKMANAGER).removesuffix(LEAVING_SUFFIX)), path.name.endswith(LEAVING_SUFFIX)


START_TIMEOUT_S = 120.0
POLL_S = 0.2


@dataclass(frozen=True)
class FlinkState(ServerState):
    url: str

    @property
    def address(self) -> str:
        return self.url


DETACHED = Detached("flink", "Flink cluster", FlinkState)
status, down = DETACHED.status, DETACHED.down


@dataclass(frozen=True)
class TaskManager:
    """A registered TaskManager."""

    id: str
    slots: int
    free_slots: int

    @property
    def is_drained(self) -> bool:
        """Whether no job has a slot of it, so that it can go without a restart."""
        return self.free_slots == self.slots


class FlinkCluster:
    """A running cluster of a warden on this machine, for any process of the same user."""

    def __init__(self, url: str, directory: str) -> None:
        self.url = url
        self.directory = directory

    @classmethod
    def at(cls, url: str) -> FlinkCluster:
        """The cluster at this address, if its TaskManagers are started and stopped on this machine."""
        url = url.rstrip("/")
        entries = {entry["key"]: entry["value"] for entry in flink_response(url, "jobmanager/config")}
        directory = entries.get(DIRECTORY_KEY)
        if directory is None or not Path(directory).is_dir():
            raise InputError(f"the Flink cluster at {url} was not started here by headgate flink up.")
        return cls(url, directory)

    def taskmanagers(self) -> list[TaskManager]:
        """Return the TaskManagers that have registered, also those that are leaving."""
        found = flink_response(self.url, "taskmanagers")["taskmanagers"]
        return [TaskManager(manager["id"], manager["slotsNumber"], manager["freeSlots"]) for manager in found]

    def wanted(self) -> list[str]:
        """Return the ids of the TaskManagers that are to run, registered or not, the oldest first."""
        return wanted_taskmanagers(self.directory)

    def add_taskmanager(self) -> str:
        """Start another TaskManager; return its id. It registers some seconds later (``await_taskmanagers``)."""
        if not Path(self.directory).is_dir():
            raise EngineError(f"the Flink cluster at {self.url} is gone.")
        return want_taskmanager(self.directory)

    def remove_taskmanager(self, taskmanager_id: str, *, even_if_busy: bool = False) -> None:
        """Stop a TaskManager. One with work is refused: a job would have to restart from its last checkpoint."""
        wanted = self.wanted()
        if taskmanager_id not in wanted:
            there = ", ".join(wanted) or "none"
            raise InputError(f"there is no TaskManager {taskmanager_id!r} to remove; there are: {there}.")
        if not even_if_busy:
            for taskmanager in self.taskmanagers():
                if taskmanager.id == taskmanager_id and not taskmanager.is_drained:
                    busy = taskmanager.slots - taskmanager.free_slots
                    raise EngineError(
                        f"{taskmanager_id} cannot go: {busy} of its {taskmanager.slots} slots are in use."
                    )
        leave_taskmanager(self.directory, taskmanager_id)

    def await_taskmanagers(self, ids: Collection[str] | None = None, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until exactly these have registered, by default those that are to run, and removed ones have left."""
        registered: list[str] = []

        def settled() -> bool:
            registered[:] = [taskmanager.id for taskmanager in self.taskmanagers()]
            return set(registered) == set(self.wanted() if ids is None else ids)

        if not _within(timeout_s, settled):
            wanted = ", ".join(self.wanted() if ids is None else ids) or "none"
            there = ", ".join(registered) or "none"
            raise EngineError(f"after {timeout_s:.0f} s the TaskManagers are {there}, not {wanted}.")


class LocalFlink(LocalServers[FlinkPlan, FlinkState]):
    """A cluster that starts with so many TaskManagers of so many slots each.

    ``home`` is the folder of another Flink than the one that the extra brings, 1.20 or newer.
    """

    def __init__(self, taskmanagers: int = 1, slots: int = 2, home: Path | None = None) -> None:
        if taskmanagers < 0:
            raise InputError(f"a cluster with {taskmanagers} TaskManagers is not possible; 0 or more are.")
        if slots < 1:
            raise InputError(f"a TaskManager with {slots} slots is not possible; at least 1 is needed.")
        self._taskmanagers = taskmanagers
        self._slots = slots
        self._home = home
        super().__init__("flink", "the Flink cluster")

    @property
    def url(self) -> str:
        """Its REST interface and web page."""
        return self._running().url

    @property
    def cluster(self) -> FlinkCluster:
        return FlinkCluster(self.url, str(self.directory))

    def start(self, *, detached: bool = False) -> FlinkState:
        home, executable = flink_home(self._home), java(needed_by="Flink")
        port, web_port, coordinator_port = free_ports(3)
        plan = FlinkPlan(
            flink_home=home,
            java=executable,
            directory=self._make_directory(),
            port=port,
            web_port=web_port,
            coordinator_port=coordinator_port,
            slots=self._slots,
            last_words=str(DETACHED.last_words) if detached else None,
        )
        for _ in range(self._taskmanagers):
            want_taskmanager(plan.directory)
        warden_pid = self._run(plan)
        try:
            self.cluster.await_taskmanagers()
        except BaseException:
            self.stop()
            raise
        return FlinkState(warden_pid, plan.directory, plan.url)


def up(taskmanagers: int, slots: int) -> FlinkState:
    """Start a cluster that outlives this process; only one may be up."""
    return DETACHED.up(LocalFlink(taskmanagers, slots))


def _within(timeout_s: float, is_so: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True
