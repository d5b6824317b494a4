"""Running applications by their command on a cluster of the tests, and killing what they run on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import headgate.apps.payloads  # noqa: F401 - registers how records are made
from headgate.core.types import Startup
from headgate.journal.writer import SqliteJournal
from headgate.local.spark.cluster import LocalCluster

RULES = """\
rules:
  - name: much waits
    scale_out: job
    by: 1
    never_above: 2
    when:
      - metric: backlog
        above: {records} records
        for_at_least: 0s
  - name: little waits
    scale_in: job
    by: 1
    when:
      - metric: backlog
        below: {records} records
        for_at_least: 2s
"""
"""Of what arrives in a second or two of a high load something always waits, on any machine."""


@dataclass(frozen=True)
class AppRun:
    """A run of an application, to be started as often as wanted."""

    application: str
    folder: Path
    master: str
    arguments: tuple[str, ...]

    @classmethod
    def on(cls, cluster: LocalCluster, folder: Path, application: str, *arguments: str) -> AppRun:
        return cls(application, folder, cluster.master_url, arguments)

    def ruled(self, records: float) -> AppRun:
        """Scaled between one and two executors by whether more than so many records wait."""
        rules = self.folder.with_name("rules.yaml")
        rules.write_text(RULES.format(records=records))
        chosen = ("--policy", "rules", "--set", f"file={rules}", "--executors", "1..2", "--interval", "1s")
        guards = ("--guard", "recovery_timeout_s=2", "--guard", "pending_timeout_s=10")
        return AppRun(self.application, self.folder, self.master, (*self.arguments, *chosen, *guards))

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "headgate", "app", "run", self.application, "--master", self.master]
        command += ["--folder", str(self.folder), "--json", str(self._result), *self.arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            kill_driver(process)
            process.communicate()

    @property
    def _result(self) -> Path:
        return self.folder.with_suffix(".json")

    def ended(self, process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
        """What it came to as data, when it has ended by itself."""
        return self.ended_and_said(process, code)[0]

    def ended_and_said(self, process: subprocess.Popen[str], code: int = 0) -> tuple[dict[str, Any], str]:
        """The same, and what it printed."""
        message, _ = process.communicate(timeout=400)
        assert process.returncode == code, message
        return json.loads(self._result.read_text()), message

    def changes(self) -> list[int]:
        """By how much its size was changed each time, in the decisions of all its starts."""
        with closing(SqliteJournal.read(self.folder / "journal.db")) as journal:
            decisions = [decision for number, _ in journal.runs() for decision in journal.decisions(run=number)]
        return [decision.verdicts["job"].change for decision in decisions if not decision.is_hold]

    def startups(self) -> list[Startup]:
        """How long its executors took to start, as far as that was reported."""
        if not (self.folder / "journal.db").exists():
            return []
        with closing(SqliteJournal.read(self.folder / "journal.db")) as journal:
            observations = [
                observation for number, _ in journal.runs() for observation in journal.observations(run=number)
            ]
        return [startup for seen in observations for startup in seen.startups.get("job", ())]

    @property
    def batches(self) -> int:
        """Batches that are done."""
        commits = self.folder / "checkpoint/commits"
        return len([file for file in commits.glob("*") if file.name.isdigit()]) if commits.is_dir() else 0


def kill_driver(process: subprocess.Popen[str]) -> None:
    """Kill a driver with -9: its JVM, its Python, and what Python runs for it, all at once."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
