"""A real Prometheus on loopback, and promtool, for tests; skipped where they are not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from headgate.local.machine import LOOPBACK, free_ports

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "deploy" / "prometheus" / "headgate-alerts.yml"

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs prometheus and promtool: apt-get install prometheus",
)


class PrometheusServer:
    """Reads a page every second while it is entered, with the alert rules of this project."""

    def __init__(self, folder: Path, target: str) -> None:
        self._port = free_ports(1)[0]
        self.url = f"http://{LOOPBACK}:{self._port}"
        self._folder = folder
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "headgate", "honor_labels": True, "static_configs": [{"targets": [target]}]},
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")

    def __enter__(self) -> PrometheusServer:
        command = [
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
            "--log.level=error",
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.wait_for("up == 1")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)

    def ask(self, path: str, **arguments: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(arguments)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, query: str) -> list[Any]:
        result: list[Any] = self.ask("query", query=query)["result"]
        return result

    def wait_for(self, query: str, within_s: float = 60.0) -> list[Any]:
        """What a query gives as soon as it gives anything."""
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            try:
                if found := self.query(query):
                    return found
            except URLError:
                pass  # It is still starting.
            time.sleep(0.1)
        raise AssertionError(f"{query} gave nothing within {within_s:g} s")
