"""A real Kafka broker on this machine: one node, its own controller, on loopback and free ports.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalKafka() as kafka:
        kafka.create_topic("orders", partitions=8)
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)

Its jars are fetched when one is first started. ``detached`` brokers outlive their starter; they are found again by
their state file (``headgate kafka``). What is in the topics goes away with the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import InputError
from headgate.local import topics
from headgate.local.broker import release
from headgate.local.detached import Detached, Found
from headgate.local.jars import fetch, pinned
from headgate.local.kafka_servers import KafkaPlan
from headgate.local.keeper import KeptServers
from headgate.local.machine import LOOPBACK, free_ports, java, problem_with_port

HEAP_MB = 384
STATE_VERSION = 1


@dataclass(frozen=True)
class KafkaState:
    """What is written about a detached broker, so that other commands find it."""

    warden_pid: int
    bootstrap: str
    directory: str
    version: int = STATE_VERSION

    @property
    def address(self) -> str:
        return self.bootstrap


DETACHED = Detached("kafka", "broker", KafkaState)


class LocalKafka(KeptServers[KafkaPlan, KafkaState]):
    """``port`` is where it listens; a free one is taken where none is given."""

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
            directory=self._keeper.make_directory(),
            port=port,
            controller_port=controller_port,
            heap_mb=HEAP_MB,
            last_words=str(DETACHED.last_words) if detached else None,
        )
        warden_pid = self._keep(plan)
        return KafkaState(warden_pid, plan.bootstrap, plan.directory)

    def release(self) -> str:
        """The release that answers, such as ``4.3``; an error that says why if none does."""
        return release(self.bootstrap)

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return topics.topics(self.bootstrap)

    def create_topic(self, name: str, partitions: int = 1, *, broker_stamps: bool = False) -> None:
        """Make a topic, and wait until it is there; ``broker_stamps`` gives its records the broker's time."""
        topics.create_topic(self.bootstrap, name, partitions, broker_stamps=broker_stamps)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        topics.delete_topic(self.bootstrap, name)


def fetch_broker() -> list[Path]:
    """The jars of the broker; they are fetched when they are first needed."""
    known = pinned("kafka")
    return fetch(f"Apache Kafka {known.version}", known.jars)


def up(port: int | None = None) -> KafkaState:
    """Start a broker that goes on after this process; there is one at a time."""
    return DETACHED.up(LocalKafka(port))


def status() -> Found[KafkaState] | None:
    """The detached broker: up, or gone though nobody stopped it; ``None`` if there is none."""
    return DETACHED.status()


def down() -> Found[KafkaState] | None:
    """Stop the detached broker; gives what was found."""
    return DETACHED.down()
