"""The processes of a Flink cluster: a coordinator (ZooKeeper, out of Flink's own jars), a JobManager, TaskManagers.

TaskManagers come and go. Which are wanted is written in a folder, one empty file each, and the warden looks there.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError
from headgate.local import flink_settings
from headgate.local.flink_asking import asked
from headgate.local.machine import LOOPBACK, QUICK_START
from headgate.local.plan import Server, log_file

WANTED = "taskmanagers"
TASKMANAGER = "taskmanager-"
LEFT = ".left"
"""What a wanted TaskManager's file ends with when it is wanted no more: its name is not given again."""


@dataclass(frozen=True)
class FlinkPlan:
    """Ports are chosen by whoever asks, who also knows that they are free. ``slots`` is per TaskManager."""

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

    def servers(self) -> Iterator[Server]:
        self._write_settings()
        coordinator = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
        small = (f"-Xmx{flink_settings.COORDINATOR_HEAP_MB}m",)
        file = str(Path(self.directory, "coordinator.cfg"))
        yield self._server("coordinator", small, coordinator, file, is_up=lambda: _listens(self.coordinator_port))
        jobmanager = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        heap = (f"-Xmx{flink_settings.JOBMANAGER_HEAP_MB}m", *flink_settings.OPENS)
        where = ("--configDir", self.directory)
        yield self._server("jobmanager", heap, jobmanager, *where, is_up=self._answers, is_revived=True)

    def wanted(self) -> Iterator[Server]:
        taskmanager = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        options = (*flink_settings.TaskManagerMemory(self.slots).java_options(), *flink_settings.OPENS)
        for name in wanted_taskmanagers(self.directory):
            arguments = ("--configDir", self.directory, "-D", f"taskmanager.resource-id={name}")
            yield self._server(name, options, taskmanager, *arguments, is_revived=True)

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
        is_revived: bool = False,
    ) -> Server:
        logging = (
            f"-Dlog4j.configurationFile={self.directory}/log4j.properties",
            f"-Dlog.file={log_file(self.directory, name)}",
        )
        command = [self.java, *options, *QUICK_START, *logging, main_class, *arguments]
        return Server(name, command, is_up, self._environment(), is_revived)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "CLASSPATH": f"{self.flink_home}/lib/*",
            "FLINK_CONF_DIR": self.directory,
            "FLINK_LIB_DIR": f"{self.flink_home}/lib",
            "FLINK_PLUGINS_DIR": f"{self.flink_home}/plugins",
        }

    def _answers(self) -> bool:
        try:
            return "taskmanagers" in asked(self.url, "overview")
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
    """The TaskManagers that are to run in the cluster of this folder, in the order in which they were asked for."""
    numbers = sorted(number for number, left in _numbers(directory) if not left)
    return [f"{TASKMANAGER}{number}" for number in numbers]


def want_taskmanager(directory: str) -> str:
    """Ask for one more; gives its name, which is also Flink's id for it."""
    folder = Path(directory, WANTED)
    folder.mkdir(exist_ok=True)
    number = 1 + max((number for number, _ in _numbers(directory)), default=0)
    while True:
        name = f"{TASKMANAGER}{number}"
        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:  # Another process asked for one at the same moment.
            number += 1
        else:
            return name


def leave_taskmanager(directory: str, name: str) -> None:
    """Have the warden stop one; fine when it is not wanted any more."""
    path = Path(directory, WANTED, name)
    path.rename(f"{path}{LEFT}")


def _numbers(directory: str) -> Iterator[tuple[int, bool]]:
    """The numbers that were given so far, and whether that TaskManager is wanted no more."""
    for path in Path(directory, WANTED).glob(f"{TASKMANAGER}*"):
        yield int(path.name.removeprefix(TASKMANAGER).removesuffix(LEFT)), path.name.endswith(LEFT)
