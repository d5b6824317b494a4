"""Child processes that are restarted when they end by themselves, and the child's side of their orderly end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError
from headgate.journal.codec import to_json

TAIL_BYTES = 16_384
PROVED_AFTER_S = 60.0
"""A process that ran for this long was well; when it ends, failures are counted from one again."""
MOST_FAILURES = 5
"""How often in a row a process may end by itself before it is given up."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
STOP_WITHIN_S = 20.0


@dataclass(frozen=True)
class ProcessEnd:
    """A process that ended by itself, and when it is restarted."""

    name: str
    reason: str
    """Such as ``was killed by SIGKILL``."""
    restart_after_s: float


class SupervisedProcess:
    """One child process with a log, restarted after a pause that doubles with every failure in a row.

    - ``own_session``: it leads a process group of its own, whose other members are killed when it ends. A Ctrl-C in the
      terminal does not reach it, and its standard input is a pipe that closes with this process
    - ``first_pause_s``: the pause before the first restart; 0 restarts at once
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        own_session: bool = False,
        first_pause_s: float | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._environment = None if environment is None else dict(environment)
        self._directory = directory
        self._own_session = own_session
        self._first_pause_s = FIRST_PAUSE_S if first_pause_s is None else first_pause_s
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._restart_s: float | None = None
        self._failures = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; ``None`` while it runs, or before its start."""
        return None if self._process is None else self._process.poll()

    @property
    def end_reason(self) -> str | None:
        """How it ended, such as ``ended with exit code 1``; ``None`` while it runs."""
        code = self.exit_code
        if code is None:
            return None
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE if self._own_session else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._directory,
                start_new_session=self._own_session,
            )
        self._started_s, self._restart_s = time.monotonic(), None

    def check(self) -> ProcessEnd | None:
        """Restart the process when its pause is over; return how it ended if it did so since the last call.

        Raises ``EngineError`` when it has ended too often in a row.
        """
        now_s = time.monotonic()
        if self._restart_s is not None:
            if now_s >= self._restart_s:
                self.start()
            return None
        reason = self.end_reason
        if reason is None:
            return None
        self._release()
        self._failures = 1 if now_s - self._started_s > PROVED_AFTER_S else self._failures + 1
        if self._failures > MOST_FAILURES:
            raise EngineError(f"{self.name} {reason} {self._failures} times in a row: {last_line(self.log)}")
        pause_s = min(LONGEST_PAUSE_S, self._first_pause_s * 2 ** (self._failures - 1))
        if pause_s > 0:
            self._restart_s = now_s + pause_s
        else:
            self.start()
        return ProcessEnd(self.name, reason, pause_s)

    def request_stop(self) -> None:
        """Ask the process to end, without waiting for it."""
        self._restart_s = None
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """End the process, by force after ``within_s``; calling it twice is fine."""
        self.request_stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(within_s)
            self._release()

    def _release(self) -> None:
        """Kill what is left of the process and of its group: a JVM may outlive the Python process that started it."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            if self._own_session:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


class ProcessSupervisor:
    """Supervised processes that are stopped together, the last one started first."""

    def __init__(self, on_end: Callable[[ProcessEnd], None]) -> None:
        self._on_end = on_end
        self._processes: dict[str, SupervisedProcess] = {}

    def __iter__(self) -> Iterator[SupervisedProcess]:
        return iter(list(self._processes.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._processes

    def __getitem__(self, name: str) -> SupervisedProcess:
        return self._processes[name]

    def start(self, process: SupervisedProcess) -> None:
        self._processes[process.name] = process
        process.start()

    def remove(self, name: str) -> SupervisedProcess:
        """Leave a process to the caller; it is neither restarted nor stopped any more."""
        return self._processes.pop(name)

    def check(self) -> None:
        """Restart processes that have ended by themselves, and report each end."""
        for process in self:
            if (end := process.check()) is not None:
                self._on_end(end)

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """End all processes; they share the time after which they are killed."""
        deadline_s = time.monotonic() + within_s
        for process in reversed(self._processes.values()):
            process.request_stop()
        for process in reversed(self._processes.values()):
            process.stop(max(0.0, deadline_s - time.monotonic()))


def python_process(name: str, module: str, plan: Mapping[str, object], directory: Path) -> SupervisedProcess:
    """Return a process that runs a Python module with a plan, a file of JSON that only its owner can read."""
    file = directory / f"{name}.json"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
        output.write(to_json(plan))
    command = [sys.executable, "-m", module, str(file)]
    return SupervisedProcess(name, command, directory / f"{name}.log", own_session=True)


def stop_event() -> threading.Event:
    """Return an event that is set by SIGTERM, or when the parent, which holds this process's standard input, is gone.

    Nothing is raised, so that running calls finish.
    """
    stop = threading.Event()

    def await_parent() -> None:
        os.read(sys.stdin.fileno(), 1)  # Returns when the parent is gone.
        stop.set()

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=await_parent, name="await-parent", daemon=True).start()
    return stop


def last_line(log: Path) -> str:
    """Return the last line that a process printed; of a stack trace, the error."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    messages = [line for line in lines if line.strip() and not line[0].isspace()]
    return messages[-1].strip() if messages else "it printed nothing"
