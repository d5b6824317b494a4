"""The process of a Kafka broker that is its own controller (KRaft), and how it is set up."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.local.broker import answers
from headgate.local.machine import LOOPBACK, QUICK_START
from headgate.local.plan import Server

# What a broker alone has to be told: topics that Kafka keeps for itself are made with three copies otherwise.
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
    """Ports are chosen by whoever asks, who also knows that they are free."""

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

    def servers(self) -> Iterator[Server]:
        settings = Path(self.directory, "server.properties")
        controller = f"{LOOPBACK}:{self.controller_port}"
        settings.write_text(
            PROPERTIES.format(bootstrap=self.bootstrap, controller=controller, data=f"{self.directory}/data")
        )
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one word: one id in 64 begins with a dash, and would be taken for an option.
        form = ("format", "--standalone", f"--cluster-id={cluster_id}", "--config", str(settings))
        yield Server("format", self._java("kafka.tools.StorageTool", *form), None, self._environment())
        broker = self._java("kafka.Kafka", str(settings))
        yield Server("broker", broker, lambda: answers(self.bootstrap), self._environment())

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [self.java, f"-Xmx{self.heap_mb}m", *QUICK_START, log, main_class, *arguments]

    def _environment(self) -> dict[str, str]:
        # Not as an argument: 46 paths would bury the rest of the command line.
        return os.environ | {"CLASSPATH": os.pathsep.join(self.jars)}
