"""Keeps the processes of one local Spark cluster, and takes all of them down when it ends.

Run as ``python -m headgate.local.warden``; it is told by JSON on the command line what to start. It prints one line
of JSON when the cluster is up, or says what went wrong. It ends when it is told to (SIGTERM), when a process it keeps
ends by itself, or, when it is not detached, when its parent ends for whatever reason: the parent holds the other end of
its standard input, and the kernel closes that even for a parent that was killed with -9.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 8.0
POLL_S = 0.1


@dataclass(frozen=True)
class Plan:
    """What to start. Ports are chosen by whoever asks, who also knows that they are free."""

    spark_home: str
    java: str
    directory: str
    port: int
    web_port: int
    cores: int
    memory_mb: int
    detached: bool

    @property
    def master_url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def web_url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"


class Warden:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ended = threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        if not self._plan.detached:
            threading.Thread(target=self._await_parent, name="await-parent", daemon=True).start()
        try:
            problem = self._start()
            answer = {"error": problem} if problem else {"master": self._plan.master_url}
            os.write(sys.stdout.fileno(), f"{json.dumps(answer)}\n".encode())
            if problem:
                return 1
            while not self._ended.wait(POLL_S * 5):
                if any(process.poll() is not None for process in self._processes):
                    return 1
            return 0
        finally:
            self._stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._ended.set()

    def _await_parent(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 1024):
                pass
        self._ended.set()

    def _start(self) -> str | None:
        """Start master and worker; gives what went wrong, if anything did."""
        plan = self._plan
        master = ("--host", "127.0.0.1", "--port", str(plan.port), "--webui-port", str(plan.web_port))
        self._launch("master", "org.apache.spark.deploy.master.Master", *master)
        if problem := self._await_state("master", workers=0):
            return problem
        worker = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--work-dir", f"{plan.directory}/work")
        size = ("--cores", str(plan.cores), "--memory", f"{plan.memory_mb}m")
        self._launch("worker", "org.apache.spark.deploy.worker.Worker", *worker, *size, plan.master_url)
        return self._await_state("worker", workers=1)

    def _launch(self, name: str, main_class: str, *arguments: str) -> None:
        plan = self._plan
        local = Path(plan.directory, "local")
        local.mkdir(exist_ok=True)
        environment = os.environ | {
            "SPARK_HOME": plan.spark_home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "JAVA_HOME": str(Path(plan.java).resolve().parent.parent),
        }
        with self._log(name).open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [f"{plan.spark_home}/bin/spark-class", main_class, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=plan.directory,
                )
            )

    def _await_state(self, name: str, workers: int) -> str | None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._ended.is_set():
            if (code := self._processes[-1].poll()) is not None:
                return f"the {name} ended with exit code {code}: {last_line(self._log(name))}"
            if self._alive_workers() >= workers:
                return None
            if time.monotonic() > deadline_s:
                return f"the {name} did not answer within {START_TIMEOUT_S:.0f} s: {last_line(self._log(name))}"
            self._ended.wait(POLL_S)
        return "it was told to stop while starting"

    def _alive_workers(self) -> int:
        """What the master says; -1 while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._plan.web_url}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            return -1

    def _log(self, name: str) -> Path:
        return Path(self._plan.directory, f"{name}.log")

    def _stop(self) -> None:
        # The worker first, so that its shutdown hook ends the executors; then the master.
        for process in reversed(self._processes):
            process.terminate()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for process in reversed(self._processes):
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._plan.directory, ignore_errors=True)
        # Executors share this session's process group; one that outlived its worker goes with the warden.
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(os.getpgrp(), signal.SIGTERM)


def last_line(log: Path) -> str:
    """The last thing a process said."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it printed nothing"


def main() -> int:
    return Warden(Plan(**json.loads(sys.argv[1]))).run()


def command(plan: Plan) -> list[str]:
    """How to start a warden for a plan."""
    return [sys.executable, "-m", "headgate.local.warden", json.dumps(asdict(plan))]


if __name__ == "__main__":
    sys.exit(main())
