"""A real YARN on this machine: one ResourceManager and one NodeManager, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalYarn(slots=4) as yarn:
        spark = yarn.session("my job")

Its jars are fetched when one is first started; the rest of Hadoop is that of the installed pyspark. Containers run as
the user of this process.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from headgate.core.errors import InputError
from headgate.local.jars import fetch, pinned
from headgate.local.machine import LOOPBACK, MOST_SLOTS, QUICK_START, free_ports, java, spark_home
from headgate.local.server_plan import ServerProcess
from headgate.local.servers import LocalServers
from headgate.local.spark.cluster import EXECUTOR_MEMORY_MB, local_settings, plain_session, submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_SPARK = (
    *("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "javax.servlet-api"),
    *("log4j-1.2-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)
"""Jars that pyspark brings and YARN needs."""
LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""
OVERHEAD_MB = 384
"""What Spark adds to the memory of a small container."""
STEP_MB = 256
"""Containers are given memory in multiples of this."""
DAEMONS = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
PORTS = (
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.resource-tracker.address",
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.admin.address",
    "yarn.resourcemanager.webapp.address",
    "yarn.nodemanager.address",
    "yarn.nodemanager.localizer.address",
    "yarn.nodemanager.webapp.address",
)
WEB = PORTS.index("yarn.resourcemanager.webapp.address")


@dataclass(frozen=True)
class YarnPlan:
    """How YARN is started, on ports that the caller has found free: one for each of ``PORTS``."""

    java: str
    jars: list[str]
    directory: str
    ports: list[int]
    memory_mb: int
    settings: dict[str, str]
    last_words: str | None = None

    @property
    def configuration(self) -> Path:
        """The folder that ``HADOOP_CONF_DIR`` names."""
        return Path(self.directory, "conf")

    @property
    def web_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports[WEB]}"

    def servers(self) -> Iterator[ServerProcess]:
        self._configure()
        yield self._server("resourcemanager", nodes=0)
        yield self._server("nodemanager", nodes=1)

    def _configure(self) -> None:
        self.configuration.mkdir(exist_ok=True)
        base = self.directory
        files = {
            "core-site.xml": {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{base}/tmp"},
            "yarn-site.xml": {
                **{name: f"{LOOPBACK}:{port}" for name, port in zip(PORTS, self.ports, strict=True)},
                "yarn.resourcemanager.hostname": LOOPBACK,
                "yarn.resourcemanager.bind-host": LOOPBACK,
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
                "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
                "yarn.scheduler.minimum-allocation-mb": str(STEP_MB),
                "yarn.scheduler.maximum-allocation-mb": str(self.memory_mb),
                "yarn.nodemanager.hostname": LOOPBACK,
                "yarn.nodemanager.bind-host": LOOPBACK,
                "yarn.nodemanager.resource.memory-mb": str(self.memory_mb),
                "yarn.nodemanager.resource.cpu-vcores": str(MOST_SLOTS),
                "yarn.nodemanager.local-dirs": f"{base}/local",
                "yarn.nodemanager.log-dirs": f"{base}/logs",
                # A disk that is nearly full, and the large virtual memory of JVMs, are no reasons here.
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,HADOOP_CONF_DIR",
            },
            "capacity-scheduler.xml": {
                "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
            },
        }
        for name, values in files.items():
            own = {key: value for key, value in self.settings.items() if _file_of(key) == name}
            lines = "".join(
                f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
                for key, value in (values | own).items()
            )
            (self.configuration / name).write_text(f"<configuration>\n{lines}</configuration>\n")
        (self.configuration / "log4j2.properties").write_text(LOG4J)

    def _server(self, name: str, *, nodes: int) -> ServerProcess:
        options = ("-Xmx256m", *QUICK_START, "--add-opens=java.base/java.lang=ALL-UNNAMED")
        environment = os.environ | {
            "CLASSPATH": os.pathsep.join([str(self.configuration), *self.jars]),
            "HADOOP_CONF_DIR": str(self.configuration),
            "HADOOP_HOME": self.directory,
            "JAVA_HOME": str(Path(self.java).resolve().parent.parent),
        }
        return ServerProcess(name, [self.java, *options, DAEMONS[name]], lambda: self._has_nodes(nodes), environment)

    def _has_nodes(self, count: int) -> bool:
        """Whether the ResourceManager answers and has so many nodes."""
        try:
            with urllib.request.urlopen(f"{self.web_url}/ws/v1/cluster/metrics", timeout=5) as answer:
                return int(json.load(answer)["clusterMetrics"]["activeNodes"]) >= count
        except (OSError, ValueError, KeyError):
            return False


def _file_of(setting: str) -> str:
    """Return the file of a setting."""
    return "capacity-scheduler.xml" if setting.startswith("yarn.scheduler.capacity.") else "yarn-site.xml"


class LocalYarn(LocalServers[YarnPlan, str]):
    """YARN with room for one application of so many one-core executors; ``settings`` are YARN's own."""

    def __init__(
        self, slots: int = 4, executor_memory_mb: int = EXECUTOR_MEMORY_MB, settings: Mapping[str, str] | None = None
    ) -> None:
        if not 1 <= slots <= MOST_SLOTS:
            raise InputError(f"a YARN with {slots} slots is not possible; 1 to {MOST_SLOTS} are.")
        self._slots = slots
        self._executor_memory_mb = executor_memory_mb
        self._settings = dict(settings or {})
        super().__init__("yarn", "YARN")

    @property
    def configuration(self) -> Path:
        """The folder of its settings, for ``HADOOP_CONF_DIR``."""
        return self._running().configuration

    @property
    def web_url(self) -> str:
        """The address of the ResourceManager's pages and of its REST interface."""
        return self._running().web_url

    def start(self, *, detached: bool = False) -> str:
        """Start it and return the address of the ResourceManager's pages."""
        container_mb = _container_mb(self._executor_memory_mb)
        plan = YarnPlan(
            java=java(needed_by="YARN"),
            jars=[str(jar) for jar in yarn_jars()],
            directory=self._make_directory(),
            ports=free_ports(len(PORTS)),
            # One container more, for the ApplicationMaster.
            memory_mb=self._slots * container_mb + _container_mb(EXECUTOR_MEMORY_MB),
            settings=self._settings,
        )
        self._run(plan)
        return plan.web_url

    def session(self, name: str, executors: int = 1, settings: Mapping[str, str] | None = None) -> SparkSession:
        """Return a session in client mode; no other one may have been started in this process."""
        # Spark's launcher and the driver's JVM read the folder from their environment.
        os.environ["HADOOP_CONF_DIR"] = str(self.configuration)
        chosen = self.settings(executors) | dict(settings or {})
        return plain_session("yarn", name, chosen, self.directory / "driver.log")

    def submit(
        self,
        program: Path,
        arguments: Sequence[str] = (),
        name: str = "job",
        executors: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Submit a Python program in cluster mode, whose driver is a container, and return when it was accepted."""
        python = ("spark.yarn.appMasterEnv.PYSPARK_PYTHON", "spark.executorEnv.PYSPARK_PYTHON")
        chosen = (
            self.settings(executors)
            | dict.fromkeys(python, sys.executable)
            | {
                "spark.yarn.submit.waitAppCompletion": "false",
                # Otherwise executors would look for it at the address of this machine's name.
                "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": LOOPBACK,
                "spark.driver.memory": f"{EXECUTOR_MEMORY_MB}m",
            }
        )
        environment = {"HADOOP_CONF_DIR": str(self.configuration)}
        submit("yarn", program.absolute(), arguments, name, chosen | dict(settings or {}), environment)

    def settings(self, executors: int = 1) -> dict[str, str]:
        """Spark settings for a session that starts with so many one-core executors."""
        return local_settings(executors, self._executor_memory_mb) | {
            "spark.dynamicAllocation.enabled": "false",
            "spark.executor.instances": str(executors),
            "spark.executor.maxNumFailures": "1000",
            "spark.executor.failuresValidityInterval": "1h",
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.directory}/staging",
            "spark.yarn.am.memory": f"{EXECUTOR_MEMORY_MB}m",
        }


def _container_mb(heap_mb: int) -> int:
    """Return the memory of a container for a JVM.

    >>> _container_mb(512)
    1024
    """
    return -(-(heap_mb + max(OVERHEAD_MB, heap_mb // 10)) // STEP_MB) * STEP_MB


def yarn_jars() -> list[Path]:
    """Return the jars of YARN, fetched when first needed; the installed pyspark must bring the same Hadoop."""
    known = pinned("yarn")
    folder = Path(spark_home(), "jars")
    own = [path for name in OF_SPARK for path in sorted(folder.glob(f"{name}-[0-9]*.jar"))]
    if not (folder / f"hadoop-client-api-{known.version}.jar").exists():
        found = [path.stem.removeprefix("hadoop-client-api-") for path in folder.glob("hadoop-client-api-*.jar")]
        raise InputError(
            f"a local YARN needs a pyspark with Hadoop {known.version}, such as 4.3; the one in {folder.parent} has "
            f"{', '.join(found) or 'none'}."
        )
    return [*fetch(f"Apache Hadoop YARN {known.version}", known.jars), *own]
