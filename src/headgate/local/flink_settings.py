"""The settings of a local Flink cluster: the least memory that its jobs run in, and quick rescaling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.local.machine import LOOPBACK

DIRECTORY_KEY = "headgate.directory"
"""A setting of Headgate among Flink's, by which a client finds the folder that the warden watches."""

JOBMANAGER_HEAP_MB = 256
COORDINATOR_HEAP_MB = 48
SESSION_TIMEOUT_MS = 6_000
"""How long a JobManager that was killed still counts as the leader; the next one waits for it."""

# What Flink's own scripts open of the Java modules, so that records of any class can be copied and closures cleaned.
OPENED = "lang lang.reflect io net nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
PACKAGES = (*(f"java.{package}" for package in OPENED.split()), "sun.nio.ch")
OPENS = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in PACKAGES)

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
logger.tokens.name = org.apache.flink.runtime.security.token
logger.tokens.level = ERROR
"""

COORDINATOR = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
tickTime=500
admin.enableServer=false
"""


@dataclass(frozen=True)
class TaskManagerMemory:
    """The parts of a TaskManager's memory in MB. Each slot adds to those that its tasks use."""

    slots: int
    framework_heap: int = 48
    framework_off_heap: int = 32
    metaspace: int = 112
    overhead: int = 64

    @property
    def task_heap(self) -> int:
        return 64 * self.slots

    @property
    def managed(self) -> int:
        """Sorting and windows of SQL have their buffers here."""
        return 32 * self.slots

    @property
    def network(self) -> int:
        return 8 + 8 * self.slots

    def settings(self) -> dict[str, str]:
        sizes = {
            "framework.heap.size": self.framework_heap,
            "framework.off-heap.size": self.framework_off_heap,
            "task.heap.size": self.task_heap,
            "task.off-heap.size": 0,
            "managed.size": self.managed,
            "network.min": self.network,
            "network.max": self.network,
            "jvm-metaspace.size": self.metaspace,
            "jvm-overhead.min": self.overhead,
            "jvm-overhead.max": self.overhead,
        }
        return {f"taskmanager.memory.{part}": f"{size_mb}m" for part, size_mb in sizes.items()}

    def java_options(self) -> tuple[str, ...]:
        """As Flink's scripts reckon them from the settings."""
        return (
            f"-Xmx{self.framework_heap + self.task_heap}m",
            f"-XX:MaxDirectMemorySize={self.framework_off_heap + self.network}m",
            f"-XX:MaxMetaspaceSize={self.metaspace}m",
        )


def settings(directory: str, web_port: int, port: int, coordinator_port: int, slots: int) -> dict[str, object]:
    """The settings of all servers of a cluster; ``slots`` is per TaskManager."""
    scheduler = "jobmanager.adaptive-scheduler"
    return {
        DIRECTORY_KEY: directory,
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": port,
        "jobmanager.bind-host": LOOPBACK,
        "rest.address": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.port": web_port,
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.numberOfTaskSlots": slots,
        "taskmanager.cpu.cores": float(slots),
        **TaskManagerMemory(slots).settings(),
        "io.tmp.dirs": _made(directory, "scratch"),
        # By default, the REST API's state of a job is up to three seconds old, and its metrics ten.
        "web.refresh-interval": 200,
        "metrics.fetcher.update-interval": 500,
        # A TaskManager that was killed does not answer: for as long as this, the metrics of all others stand still.
        "web.timeout": 10_000,
        # Sizes of a running job are changed in place, and soon.
        "jobmanager.scheduler": "adaptive",
        f"{scheduler}.executing.cooldown-after-rescaling": "1s",
        f"{scheduler}.executing.resource-stabilization-timeout": "1s",
        f"{scheduler}.submission.resource-stabilization-timeout": "1s",
        f"{scheduler}.rescale-trigger.max-delay": "1s",
        # The same before Flink 2.0, which has other names for them.
        f"{scheduler}.scaling-interval.min": "1s",
        f"{scheduler}.resource-stabilization-timeout": "1s",
        # A slot that a job no longer uses is given back soon, so that its TaskManager counts as drained.
        "slot.idle.timeout": "1s",
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "500ms",
        "restart-strategy.exponential-delay.max-backoff": "5s",
        "heartbeat.interval": "2s",
        "heartbeat.timeout": "20s",
        # How often is for a job to say.
        "execution.checkpointing.dir": Path(_made(directory, "checkpoints")).as_uri(),
        "execution.checkpointing.savepoint-dir": Path(_made(directory, "savepoints")).as_uri(),
        # Jobs survive a JobManager: the next one finds in the coordinator which there are, and their last checkpoints.
        "high-availability.type": "zookeeper",
        "high-availability.storageDir": Path(_made(directory, "jobs")).as_uri(),
        "high-availability.zookeeper.quorum": f"{LOOPBACK}:{coordinator_port}",
        "high-availability.zookeeper.client.session-timeout": f"{SESSION_TIMEOUT_MS}ms",
        "high-availability.zookeeper.client.tolerate-suspended-connections": True,
        "zookeeper.sasl.disable": True,
    }


def _made(directory: str, name: str) -> str:
    folder = Path(directory, name)
    folder.mkdir(exist_ok=True)
    return str(folder)
