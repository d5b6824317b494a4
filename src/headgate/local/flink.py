"""A real Flink cluster on this machine: a JobManager and TaskManagers, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalFlink(taskmanagers=2, slots=2) as flink:
        flink.cluster.add_taskmanager()

``detached`` clusters outlive their starter; they are found again by their state file (``headgate flink``). Any process
of the same user that has a cluster's address can add TaskManagers and remove them: ``FlinkCluster.at(url)``.

A JobManager or a TaskManager that ends by itself is started again, and jobs go on from their last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError, InputError
from headgate.local.detached import Detached, Found
from headgate.local.flink_asking import asked
from headgate.local.flink_servers import FlinkPlan, leave_taskmanager, want_taskmanager, wanted_taskmanagers
from headgate.local.flink_settings import DIRECTORY_KEY
from headgate.local.keeper import KeptServers
from headgate.local.machine import flink_home, free_ports, java

STATE_VERSION = 1
START_TIMEOUT_S = 120.0
POLL_S = 0.2


@dataclass(frozen=True)
class FlinkState:
    """What is written about a detached cluster, so that other commands find it."""

    warden_pid: int
    url: str
    directory: str
    version: int = STATE_VERSION

    @property
    def address(self) -> str:
        return self.url


DETACHED = Detached("flink", "Flink cluster", FlinkState)


@dataclass(frozen=True)
class TaskManager:
    """One that has registered."""

    id: str
    slots: int
    free_slots: int

    @property
    def is_drained(self) -> bool:
        """Whether no job has a slot of it, so that it can go without a restart."""
        return self.free_slots == self.slots


class FlinkCluster:
    """A running cluster that a warden on this machine keeps, for any process of its user."""

    def __init__(self, url: str, directory: str) -> None:
        self.url = url
        self.directory = directory

    @classmethod
    def at(cls, url: str) -> FlinkCluster:
        """The cluster at this address, if its TaskManagers are started and stopped on this machine."""
        url = url.rstrip("/")
        entries = {entry["key"]: entry["value"] for entry in asked(url, "jobmanager/config")}
        directory = entries.get(DIRECTORY_KEY)
        if directory is None or not Path(directory).is_dir():
            raise InputError(f"the Flink cluster at {url} was not started here by headgate flink up.")
        return cls(url, directory)

    def taskmanagers(self) -> list[TaskManager]:
        """Those that have registered, wanted or on their way out."""
        found = asked(self.url, "taskmanagers")["taskmanagers"]
        return [TaskManager(one["id"], one["slotsNumber"], one["freeSlots"]) for one in found]

    def wanted(self) -> list[str]:
        """The ids of the TaskManagers that are to run, the oldest first, whether they have registered or not."""
        return wanted_taskmanagers(self.directory)

    def add_taskmanager(self) -> str:
        """Have one more started; gives its id. It registers some seconds later (``await_taskmanagers``)."""
        if not Path(self.directory).is_dir():
            raise EngineError(f"the Flink cluster at {self.url} is gone.")
        return want_taskmanager(self.directory)

    def remove_taskmanager(self, taskmanager_id: str, *, even_if_busy: bool = False) -> None:
        """Have one stopped. One with work is refused: a job would have to start again from its last checkpoint."""
        wanted = self.wanted()
        if taskmanager_id not in wanted:
            there = ", ".join(wanted) or "none"
            raise InputError(f"there is no TaskManager {taskmanager_id!r} to remove; there are: {there}.")
        if not even_if_busy:
            for one in self.taskmanagers():
                if one.id == taskmanager_id and not one.is_drained:
                    busy = one.slots - one.free_slots
                    raise EngineError(f"{taskmanager_id} cannot go: {busy} of its {one.slots} slots are in use.")
        leave_taskmanager(self.directory, taskmanager_id)

    def await_taskmanagers(self, ids: Collection[str] | None = None, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until exactly these have registered (those that are wanted), and those that were removed have left."""
        registered: list[str] = []

        def settled() -> bool:
            registered[:] = [one.id for one in self.taskmanagers()]
            return set(registered) == set(self.wanted() if ids is None else ids)

        if not _within(timeout_s, settled):
            wanted = ", ".join(self.wanted() if ids is None else ids) or "none"
            there = ", ".join(registered) or "none"
            raise EngineError(f"after {timeout_s:.0f} s the TaskManagers are {there}, not {wanted}.")


class LocalFlink(KeptServers[FlinkPlan, FlinkState]):
    """A cluster that begins with so many TaskManagers of so many slots each.

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
            directory=self._keeper.make_directory(),
            port=port,
            web_port=web_port,
            coordinator_port=coordinator_port,
            slots=self._slots,
            last_words=str(DETACHED.last_words) if detached else None,
        )
        for _ in range(self._taskmanagers):
            want_taskmanager(plan.directory)
        warden_pid = self._keep(plan)
        try:
            self.cluster.await_taskmanagers()
        except BaseException:
            self.stop()
            raise
        return FlinkState(warden_pid, plan.url, plan.directory)


def up(taskmanagers: int, slots: int) -> FlinkState:
    """Start a cluster that goes on after this process; there is one at a time."""
    return DETACHED.up(LocalFlink(taskmanagers, slots))


def status() -> Found[FlinkState] | None:
    """The detached cluster: up, or gone though nobody stopped it; ``None`` if there is none."""
    return DETACHED.status()


def down() -> Found[FlinkState] | None:
    """Stop the detached cluster; gives what was found."""
    return DETACHED.down()


def _within(timeout_s: float, is_so: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True
