"""A real Kafka broker on this machine: one node, its own controller, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalKafka() as kafka:
        kafka.create_topic("orders", partitions=8)
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)

Its jars are fetched when one is first started. ``detached`` brokers outlive their starter; they are found again by
their state file (``headgate kafka``). The records are removed with the broker. It needs the extra ``kafka``.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import InputError
from headgate.local import topics
from headgate.local.jars import fetch, pinned
from headgate.local.machine import LOOPBACK, QUICK_START, free_ports, java, problem_with_port
from headgate.local.server_plan import ServerProcess
from headgate.local.servers import Detached, LocalServers, ServerState

# A single broker cannot make the three copies that internal topics have by default.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={controller}
listeners=BROKER://{bootstrap},CONTROLLER://{controller}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True)
class KafkaPlan:
    """How a broker is started, on ports that the caller has found free."""

    java: str
    jars: list[str]
    directory: str
    port: int
    controller_port: int
    heap_mb: int
    last_words: str | None

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def servers(self) -> Iterator[ServerProcess]:
        settings = Path(self.directory, "server.properties")
        controller = f"{LOOPBACK}:{self.controller_port}"
        settings.write_text(
            PROPERTIES.format(bootstrap=self.bootstrap, controller=controller, data=f"{self.directory}/data")
        )
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one word: one id in 64 begins with a dash, and would be taken for an option.
        form = ("format", "--standalone", f"--cluster-id={cluster_id}", "--config", str(settings))
        yield ServerProcess("format", self._java("kafka.tools.StorageTool", *form), None, self._environment())
        broker = self._java("kafka.Kafka", str(settings))
        yield ServerProcess("broker", broker, lambda: topics.broker_answers(self.bootstrap), self._environment())

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [self.java, f"-Xmx{self.heap_mb}m", *QUICK_START, log, main_class, *arguments]

    def _environment(self) -> dict[str, str]:
        # Not as an argument: 46 paths would bury the rest of the command line.
        return os.environ | {"CLASSPATH": os.pathsep.join(self.jars)}


HEAP_MB = 384


@dataclass(frozen=True)
class KafkaState(ServerState):
    bootstrap: str

    @property
    def address(self) -> str:
        return self.bootstrap


DETACHED = Detached("kafka", "broker", KafkaState)
status, down = DETACHED.status, DETACHED.down


class LocalKafka(LocalServers[KafkaPlan, KafkaState]):
    """A broker that listens at ``port``, by default a free one."""

    def __init__(self, port: int | None = None) -> None:
        if port is not None and not 0 < port < 65536:
            raise InputError(f"port {port} is not possible; 1 to 65535 are.")
        self._port = port
        super().__init__("kafka", "the Kafka broker")

    @property
    def bootstrap(self) -> str:
        """Host and port, as ``bootstrap.servers`` wants them."""
        return self._running().bootstrap

    def start(self, *, detached: bool = False) -> KafkaState:
        executable, jars = java(needed_by="Kafka"), fetch_broker()
        free, controller_port = free_ports(2)
        port = self._port or free
        if problem := problem_with_port(port):
            raise InputError(f"port {port} of {LOOPBACK} cannot be used: {problem}; choose another, or none.")
        plan = KafkaPlan(
            java=executable,
            jars=[str(jar) for jar in jars],
            directory=self._make_directory(),
            port=port,
            controller_port=controller_port,
            heap_mb=HEAP_MB,
            last_words=str(DETACHED.last_words) if detached else None,
        )
        warden_pid = self._run(plan)
        return KafkaState(warden_pid, plan.directory, plan.bootstrap)

    def release(self) -> str:
        """Return the release, such as ``4.3``, if the broker answers."""
        topics.check_broker(self.bootstrap)
        return pinned_release()

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return topics.topics(self.bootstrap)

    def create_topic(self, name: str, partitions: int = 1, *, broker_stamps: bool = False) -> None:
        """Make a topic, and wait until it exists; ``broker_stamps`` gives its records the broker's time."""
        topics.create_topic(self.bootstrap, name, partitions, broker_stamps=broker_stamps)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        topics.delete_topic(self.bootstrap, name)


def pinned_release() -> str:
    """Return the release of the brokers that are started here, such as ``4.3``."""
    return pinned("kafka").version.rpartition(".")[0]


def release(bootstrap: str) -> str:
    """Return the release of a broker that answers, such as ``4.3`` for the detached one."""
    found = status()
    if found is not None and found.gone is None and found.state.bootstrap == bootstrap:
        topics.check_broker(bootstrap)
        return pinned_release()
    return topics.broker_release(bootstrap)


def fetch_broker() -> list[Path]:
    """Return the jars of the broker, which are fetched when first needed."""
    known = pinned("kafka")
    return fetch(f"Apache Kafka {known.version}", known.jars)


def up(port: int | None = None) -> KafkaState:
    """Start a broker that outlives this process; only one may be up."""
    return DETACHED.up(LocalKafka(port))
