"""Keeps servers on this machine, and takes all of them down when it ends.

Run as ``python -m headgate.local.warden KIND PLAN``; the plan is JSON. It prints one line of JSON when the servers are
up, or says what went wrong. It ends when it is told to (SIGTERM), when a server it keeps ends by itself that is not to
be started again, or when its parent ends for whatever reason: the parent holds the other end of its standard input, and
the kernel closes that even for a parent that was killed with -9. A parent that wants to be outlived says so there.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headgate.local.flink_servers import FlinkPlan
from headgate.local.kafka_servers import KafkaPlan
from headgate.local.plan import ChangingPlan, Plan, Server, last_line, log_file
from headgate.local.prometheus_servers import PrometheusPlan
from headgate.local.spark_servers import SparkPlan

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 8.0
POLL_S = 0.1
REVIVALS = 5
REVIVALS_WITHIN_S = 60.0
"""When servers had to be started again so often within this time, the next ending is the end of all."""
GO_ON = b"+"
"""What a parent says that wants to be outlived."""

PLANS: dict[str, Callable[..., Plan]] = {
    "cluster": SparkPlan,
    "flink": FlinkPlan,
    "kafka": KafkaPlan,
    "prometheus": PrometheusPlan,
}


@dataclass(frozen=True)
class Kept:
    """A server that was started."""

    server: Server
    process: subprocess.Popen[bytes]
    log: Path

    def ending(self) -> str | None:
        """How it ended, if it did."""
        code = self.process.poll()
        if code is None:
            return None
        if code < 0:
            return f"the {self.server.name} was killed by {signal.Signals(-code).name}"
        return f"the {self.server.name} ended with exit code {code}: {last_line(self.log)}"


class Warden:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ended = threading.Event()
        self._kept: list[Kept] = []
        self._guests: set[str] = set()
        self._leaving: dict[str, tuple[Kept, float]] = {}
        self._revived_at_s: list[float] = []

    def run(self) -> int:
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
                if ending := self._tend():
                    self._say(ending)
                    return 1
            return 0
        finally:
            self._stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._ended.set()

    def _await_parent(self) -> None:
        said = b""
        with contextlib.suppress(OSError):
            said = os.read(sys.stdin.fileno(), len(GO_ON))
        if said != GO_ON:
            self._ended.set()

    def _start(self) -> str | None:
        """Start one server after the other; gives what went wrong, if anything did."""
        for server in self._plan.servers():
            if problem := self._await(server, self._launch(server)):
                return problem
            self._change()
        return None

    def _launch(self, server: Server) -> Kept:
        log = log_file(self._plan.directory, server.name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                server.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(server.environment),
                cwd=self._plan.directory,
            )
        kept = Kept(server, process, log)
        self._kept.append(kept)
        return kept

    def _await(self, server: Server, kept: Kept) -> str | None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._ended.is_set():
            if server.is_up is None and kept.process.poll() == 0:
                self._kept.remove(kept)
                return None
            if ending := kept.ending():
                return ending
            if server.is_up is not None and server.is_up():
                return None
            if time.monotonic() > deadline_s:
                return f"the {server.name} did not answer within {START_TIMEOUT_S:.0f} s: {last_line(kept.log)}"
            self._ended.wait(POLL_S)
        return "it was told to stop while starting"

    def _change(self) -> None:
        """Start what is wanted by now, and let go what is not."""
        if not isinstance(self._plan, ChangingPlan):
            return
        wanted = {server.name: server for server in self._plan.wanted()}
        kept = {one.server.name: one for one in self._kept}
        for name, server in wanted.items():
            if name not in kept:
                self._guests.add(name)
                self._launch(server)
        for name in self._guests & kept.keys() - wanted.keys():
            kept[name].process.terminate()
            self._kept.remove(kept[name])
            self._leaving[name] = (kept[name], time.monotonic() + STOP_TIMEOUT_S)
        for name, (one, deadline_s) in list(self._leaving.items()):
            if one.process.poll() is not None:
                del self._leaving[name]
            elif time.monotonic() > deadline_s:
                one.process.kill()

    def _tend(self) -> str | None:
        """Start again what ended and is to go on; gives how another one ended, if any did."""
        for kept in list(self._kept):
            ending = kept.ending()
            if ending is None:
                continue
            now_s = time.monotonic()
            self._revived_at_s = [at_s for at_s in self._revived_at_s if at_s > now_s - REVIVALS_WITHIN_S]
            if not kept.server.is_revived or len(self._revived_at_s) >= REVIVALS:
                return ending
            self._revived_at_s.append(now_s)
            self._kept.remove(kept)
            self._launch(kept.server)
        return None

    def _say(self, reason: str) -> None:
        if self._plan.last_words is not None:
            Path(self._plan.last_words).write_text(reason)

    def _stop(self) -> None:
        self._kept.extend(one for one, _ in self._leaving.values())
        # The last first, so that a worker's shutdown hook ends its executors; then those that it needs.
        for kept in reversed(self._kept):
            kept.process.terminate()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for kept in reversed(self._kept):
            try:
                kept.process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                kept.process.kill()
                kept.process.wait()
        shutil.rmtree(self._plan.directory, ignore_errors=True)
        # Executors share this session's process group; one that outlived its worker goes with the warden.
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(os.getpgrp(), signal.SIGTERM)


def main() -> int:
    kind, plan = sys.argv[1:]
    return Warden(PLANS[kind](**json.loads(plan))).run()


if __name__ == "__main__":
    sys.exit(main())
