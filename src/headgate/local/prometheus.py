"""A real Prometheus on this machine that reads pages of figures, on loopback and a free port.

It lives as long as the block, and not longer than the process, however that ends::

    with LocalPrometheus(["127.0.0.1:9100"]) as prometheus:
        prometheus.over("headgate_backlog_records", from_s, to_s, step_s=2.0)
"""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from headgate.core.errors import EngineError, InputError
from headgate.local.machine import LOOPBACK, free_ports
from headgate.local.server_plan import ServerProcess
from headgate.local.servers import LocalServers

ANSWER_WITHIN_S = 2.0


@dataclass(frozen=True)
class PrometheusPlan:
    """How Prometheus is started, on a port that the caller has found free."""

    executable: str
    directory: str
    port: int
    targets: list[str]
    every: str
    last_words: str | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def servers(self) -> Iterator[ServerProcess]:
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
        yield ServerProcess("prometheus", command, self._is_ready)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_WITHIN_S):
                return True
        except OSError:
            return False


TIMEOUT_S = 10.0

TimedValues = list[tuple[float, float]]
"""Moments since the epoch, with a value each."""


class LocalPrometheus(LocalServers[PrometheusPlan, str]):
    """Reads the page ``/metrics`` of each target, which is a host and a port, every so often."""

    def __init__(self, targets: Sequence[str], every: str = "1s") -> None:
        self._targets = list(targets)
        self._every = every
        super().__init__("prometheus", "Prometheus")

    @property
    def url(self) -> str:
        return self._running().url

    def start(self, *, detached: bool = False) -> str:
        executable = shutil.which("prometheus")
        if executable is None:
            raise InputError("there is no prometheus on this machine; on Debian: apt-get install prometheus.")
        plan = PrometheusPlan(executable, self._make_directory(), free_ports(1)[0], self._targets, self._every)
        self._run(plan)
        return plan.url

    def over(self, query: str, from_s: float, to_s: float, step_s: float) -> Mapping[str, TimedValues]:
        """Return the results of a query over time, by the label ``operator`` of its series."""
        arguments = urlencode({"query": query, "start": from_s, "end": to_s, "step": step_s})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{arguments}", timeout=TIMEOUT_S) as answer:
                found = json.load(answer)["data"]["result"]
        except (OSError, ValueError, KeyError) as error:
            raise EngineError(f"Prometheus at {self.url} did not answer {query!r}: {error}.") from error
        return {
            series["metric"].get("operator", ""): [(float(at_s), float(value)) for at_s, value in series["values"]]
            for series in found
        }
