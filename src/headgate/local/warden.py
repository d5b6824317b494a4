"""The process that runs servers on this machine, and stops all of them when it ends.

Run as ``python -m headgate.local.warden KIND PLAN``; the plan is JSON. It prints one line of JSON when the servers are
up, or with the error. It ends on SIGTERM, when a server ends by itself that is not to be restarted, or when its parent
ends for whatever reason: the parent holds the other end of its standard input, and the kernel closes that even for a
parent that was killed with SIGKILL. A parent that the servers are to outlive writes ``KEEP_RUNNING`` there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from types import FrameType

from headgate.core.errors import EngineError
from headgate.local.server_plan import (
    KEEP_RUNNING,
    POLL_S,
    STOP_TIMEOUT_S,
    ChangingPlan,
    ServerPlan,
    ServerProcess,
    log_file,
)
from headgate.local.supervisor import ProcessSupervisor, SupervisedProcess, last_line

START_TIMEOUT_S = 60.0

PLANS = {
    "cluster": "headgate.local.spark.cluster:SparkPlan",
    "flink": "headgate.local.flink:FlinkPlan",
    "kafka": "headgate.local.kafka:KafkaPlan",
    "kubernetes": "headgate.local.spark.kubernetes.cluster:KubernetesPlan",
    "prometheus": "headgate.local.prometheus:PrometheusPlan",
    "yarn": "headgate.local.spark.yarn:YarnPlan",
}
"""The plan of each kind of server. A warden imports only its own."""


class Warden:
    """Runs the servers of one plan until it is stopped or one of them fails."""

    def __init__(self, plan: ServerPlan) -> None:
        self._plan = plan
        self._ended = threading.Event()
        self._servers = ProcessSupervisor(lambda end: None)
        self._restarted: set[str] = set()
        self._changing: set[str] = set()
        self._leaving: dict[str, tuple[SupervisedProcess, float]] = {}

    def run(self) -> int:
        """Start the servers, and return the exit code when they have been stopped."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._await_parent, name="await-parent", daemon=True).start()
        try:
            problem = self._start()
            os.write(sys.stdout.fileno(), f"{json.dumps({'error': problem})}\n".encode())
            if problem:
                return 1
            while not self._ended.wait(POLL_S * 5):
                self._change()
                if failure := self._failure():
                    if self._plan.last_words is not None:
                        Path(self._plan.last_words).write_text(failure)
                    return 1
            return 0
        finally:
            self._stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._ended.set()

    def _await_parent(self) -> None:
        received = b""
        with contextlib.suppress(OSError):
            received = os.read(sys.stdin.fileno(), len(KEEP_RUNNING))
        if received != KEEP_RUNNING:
            self._ended.set()

    def _start(self) -> str | None:
        """Start one server after the other; return the error, if any."""
        for server in self._plan.servers():
            if problem := self._await(server, self._launch(server)):
                return problem
            self._change()
        return None

    def _launch(self, server: ServerProcess) -> SupervisedProcess:
        process = SupervisedProcess(
            server.name,
            server.command,
            log_file(self._plan.directory, server.name),
            environment=server.environment,
            directory=self._plan.directory,
            first_pause_s=0.0,
        )
        if server.is_restarted:
            self._restarted.add(server.name)
        self._servers.start(process)
        return process

    def _await(self, server: ServerProcess, process: SupervisedProcess) -> str | None:
        """Wait until a server is up, or has done its work; return the error, if any."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._ended.is_set():
            if server.is_up is None and process.exit_code == 0:
                self._servers.remove(server.name)
                return None
            if process.exit_code is not None:
                return _ending(process)
            if server.is_up is not None and server.is_up():
                return None
            if time.monotonic() > deadline_s:
                return f"the {server.name} did not answer within {START_TIMEOUT_S:.0f} s: {last_line(process.log)}"
            self._ended.wait(POLL_S)
        return "it was stopped while starting"

    def _change(self) -> None:
        """Start servers that are wanted now, and stop those that are not."""
        if not isinstance(self._plan, ChangingPlan):
            return
        wanted = {server.name: server for server in self._plan.wanted()}
        for name, server in wanted.items():
            if name not in self._servers:
                self._changing.add(name)
                self._launch(server)
        for name in self._changing - wanted.keys():
            if name in self._servers:
                process = self._servers.remove(name)
                process.request_stop()
                self._leaving[name] = (process, time.monotonic() + STOP_TIMEOUT_S)
        for name, (process, deadline_s) in list(self._leaving.items()):
            if process.exit_code is not None or time.monotonic() > deadline_s:
                process.stop(0.0)
                del self._leaving[name]

    def _failure(self) -> str | None:
        """Restart servers that have ended and may be; return how another one failed, if any did."""
        for process in self._servers:
            if process.name not in self._restarted:
                if process.exit_code is not None:
                    return _ending(process)
                continue
            try:
                process.check()
            except EngineError as error:
                return f"the {error}"
        return None

    def _stop(self) -> None:
        for process, _ in self._leaving.values():
            process.stop(STOP_TIMEOUT_S)
        # The last first, so that a worker's shutdown hook ends its executors; then the servers that it needs.
        self._servers.stop(STOP_TIMEOUT_S)
        from headgate.local.servers import remove_leftovers

        # Containers have sessions of their own; one that outlived its node ends here.
        remove_leftovers(self._plan.directory)
        # Executors share this session's process group; one that outlived its worker ends with the warden.
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(os.getpgrp(), signal.SIGTERM)


def _ending(process: SupervisedProcess) -> str:
    """Return how a server ended, with its last words unless it was killed."""
    reason = f"the {process.name} {process.end_reason}"
    return reason if (process.exit_code or 0) < 0 else f"{reason}: {last_line(process.log)}"


def main() -> int:
    kind, plan = sys.argv[1:]
    module, _, name = PLANS[kind].partition(":")
    return Warden(getattr(import_module(module), name)(**json.loads(plan))).run()


if __name__ == "__main__":
    sys.exit(main())
