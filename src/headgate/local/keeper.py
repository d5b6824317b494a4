"""The parent's side of a warden: starts it, hears whether its servers are up, and takes it down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from headgate.core.errors import EngineError
from headgate.local import warden
from headgate.local.plan import Plan, last_line, log_file

WARDEN = "headgate.local.warden"
P = TypeVar("P", bound=Plan)
S_co = TypeVar("S_co", covariant=True)


class Keeper:
    """Keeps the servers of one plan running. ``what`` is how messages call them, ``kind`` how the warden does."""

    def __init__(self, kind: str, what: str) -> None:
        self._kind = kind
        self._what = what
        self._process: subprocess.Popen[bytes] | None = None

    def make_directory(self) -> str:
        """A new folder for the servers of a plan; the warden removes it."""
        return tempfile.mkdtemp(prefix=f"headgate-{self._kind}-")

    def start(self, plan: Plan) -> int:
        """Start a warden, wait until its servers are up, and give its process id."""
        log = log_file(plan.directory, "warden")
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", WARDEN, self._kind, json.dumps(vars(plan))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            answer: dict[str, str | None] = json.loads(process.stdout.readline() or b"{}")
        except BaseException:
            # Interrupted while starting: the warden is told, and cleans up.
            _end(process)
            raise
        problem = answer.get("error", last_line(log))
        if problem is not None:
            _end(process)
            shutil.rmtree(plan.directory, ignore_errors=True)
            raise EngineError(f"{self._what} did not start: {problem}")
        self._process = process
        return process.pid

    def let_go(self) -> None:
        """Have the servers go on when this process has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(warden.GO_ON)
        self._process.stdin.close()

    def stop(self) -> None:
        """Take everything down; calling it twice is fine."""
        if self._process is not None:
            _end(self._process)
        self._process = None


class KeptServers(ABC, Generic[P, S_co]):
    """Servers that are kept as long as a block lasts, and not longer than this process unless they are let go."""

    def __init__(self, kind: str, what: str) -> None:
        self._keeper = Keeper(kind, what)
        self._what = what
        self._plan: P | None = None

    @property
    def directory(self) -> Path:
        """Logs, data and scratch space; it goes away with the servers."""
        return Path(self._running().directory)

    @abstractmethod
    def start(self, *, detached: bool = False) -> S_co:
        """Start them and wait until they are up; ``detached`` are those that will be let go."""

    def let_go(self) -> None:
        """Have them go on when this process has ended."""
        self._keeper.let_go()

    def stop(self) -> None:
        """Take everything down, with all that is in it; calling it twice is fine."""
        self._keeper.stop()
        self._plan = None

    def _keep(self, plan: P) -> int:
        """Have a plan carried out; gives the process id of the warden."""
        warden_pid = self._keeper.start(plan)
        self._plan = plan
        return warden_pid

    def _running(self) -> P:
        if self._plan is None:
            raise EngineError(f"{self._what} is not running; start it first.")
        return self._plan

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(warden.STOP_TIMEOUT_S + 5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
