"""The process of a Prometheus, and how it is set up."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.local.machine import LOOPBACK
from headgate.local.plan import Server

ANSWER_WITHIN_S = 2.0


@dataclass(frozen=True)
class PrometheusPlan:
    """The port is chosen by whoever asks, who also knows that it is free."""

    executable: str
    directory: str
    port: int
    targets: list[str]
    every: str
    last_words: str | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def servers(self) -> Iterator[Server]:
        settings = Path(self.directory, "prometheus.yml")
        found = {"static_configs": [{"targets": self.targets}], "job_name": "headgate", "honor_labels": True}
        # JSON is YAML.
        settings.write_text(json.dumps({"global": {"scrape_interval": self.every}, "scrape_configs": [found]}))
        command = [
            self.executable,
            f"--config.file={settings}",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=error",
        ]
        yield Server("prometheus", command, self._is_ready)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_WITHIN_S):
                return True
        except OSError:
            return False
