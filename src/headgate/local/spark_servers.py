"""The processes of a Spark standalone cluster: a master and one worker."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headgate.local.machine import LOOPBACK, QUICK_START
from headgate.local.plan import Server


@dataclass(frozen=True)
class SparkPlan:
    """Ports are chosen by whoever asks, who also knows that they are free."""

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

    def servers(self) -> Iterator[Server]:
        master = ("--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self.web_port))
        yield self._server("master", "org.apache.spark.deploy.master.Master", *master, workers=0)
        worker = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--work-dir", f"{self.directory}/work")
        size = ("--cores", str(self.cores), "--memory", f"{self.memory_mb}m")
        yield self._server(
            "worker", "org.apache.spark.deploy.worker.Worker", *worker, *size, self.master_url, workers=1
        )

    def _server(self, name: str, main_class: str, *arguments: str, workers: int) -> Server:
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
        return Server(name, command, partial(self._has_workers, workers), environment)

    def _has_workers(self, count: int) -> bool:
        """Whether the master answers and says so."""
        try:
            with urllib.request.urlopen(f"{self.web_url}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"]) >= count
        except (OSError, ValueError):
            return False
