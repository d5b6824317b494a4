"""Servers on this machine from the side of the process that starts them.

They are run by a warden, a process of its own, and end with the block that started them. Detached ones outlive the
command that started them: there is one of a kind per user, found again by a state file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from headgate.core.errors import EngineError, InputError, OutputError, not_written
from headgate.core.extras import needing
from headgate.local.server_plan import KEEP_RUNNING, POLL_S, STOP_TIMEOUT_S, ServerPlan, log_file
from headgate.local.supervisor import last_line

WARDEN = "headgate.local.warden"
PlanT = TypeVar("PlanT", bound=ServerPlan)
StateT_co = TypeVar("StateT_co", covariant=True)


class LocalServers(ABC, Generic[PlanT, StateT_co]):
    """Servers that run as long as a block, and no longer than this process unless they are detached.

    ``what`` is their name in messages, ``kind`` their name for the warden.
    """

    def __init__(self, kind: str, what: str) -> None:
        self._kind = kind
        self._what = what
        self._plan: PlanT | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        """Logs, data and scratch space; it is removed with the servers."""
        return Path(self._running().directory)

    @abstractmethod
    def start(self, *, detached: bool = False) -> StateT_co:
        """Start them and wait until they are up; ``detached`` says whether ``detach`` will follow."""

    def detach(self) -> None:
        """Keep them running when this process has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(KEEP_RUNNING)
        self._process.stdin.close()

    def stop(self) -> None:
        """Stop everything and remove its data; calling it twice is fine."""
        if self._process is not None:
            _end(self._process)
        self._process = self._plan = None

    def _make_directory(self) -> str:
        """Make a folder for the servers of a plan, which the warden removes."""
        return tempfile.mkdtemp(prefix=f"headgate-{self._kind}-")

    def _run(self, plan: PlanT) -> int:
        """Start a warden, wait until its servers are up, and return its process id."""
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
            # Interrupted while starting: the warden cleans up.
            _end(process)
            raise
        problem = answer.get("error", last_line(log))
        if problem is not None:
            _end(process)
            shutil.rmtree(plan.directory, ignore_errors=True)
            raise EngineError(f"{self._what} did not start: {problem}")
        self._process, self._plan = process, plan
        return process.pid

    def _running(self) -> PlanT:
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
        process.wait(STOP_TIMEOUT_S + 5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


with needing("a server on this machine"):
    import psutil


@dataclass(frozen=True)
class ServerState(ABC):
    """The state file of a detached server, by which other commands find it; its fields are JSON."""

    warden_pid: int
    directory: str
    version: int = field(default=1, kw_only=True)

    @property
    @abstractmethod
    def address(self) -> str: ...


StateT = TypeVar("StateT", bound=ServerState)
DetachedT_co = TypeVar("DetachedT_co", bound=ServerState, covariant=True)


class Detachable(Protocol[DetachedT_co]):
    """Servers that end with this process unless they are detached."""

    def start(self, *, detached: bool) -> DetachedT_co: ...

    def detach(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True)
class DetachedServer(Generic[StateT]):
    """A detached server that was started and not stopped."""

    state: StateT
    gone: str | None
    """A sentence about how it ended by itself; ``None`` while it is up."""


class Detached(Generic[StateT]):
    """The detached server of one kind. ``command`` starts and stops it, ``noun`` is its name in messages."""

    def __init__(self, command: str, noun: str, kind: type[StateT]) -> None:
        self._command = command
        self._noun = noun
        self._kind = kind

    @property
    def file(self) -> Path:
        """The state file."""
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return Path(base, "headgate", f"{self._command}.json")

    @property
    def last_words(self) -> Path:
        """The file in which its warden writes why it ended by itself."""
        return self.file.with_suffix(".ended")

    def up(self, server: Detachable[StateT]) -> StateT:
        """Start the server so that it outlives this process; only one may be up."""
        with self._locked():
            found = self.status()
            if found is not None and found.gone is None:
                address, stop = found.state.address, f"headgate {self._command} down"
                raise InputError(f"a {self._noun} is up already at {address}; stop it first with: {stop}.")
            self._forget()
            state = server.start(detached=True)
            try:
                self.file.write_text(json.dumps(vars(state)))
            except OSError as error:
                server.stop()
                self._forget()
                raise self._not_written(error) from error
            server.detach()  # Not before it can be found again.
            return state

    def status(self) -> DetachedServer[StateT] | None:
        """Return the server that was started, if any, and clean up if it has ended by itself."""
        try:
            state = self._kind(**json.loads(self.file.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"the state file {self.file} of the {self._noun} cannot be read ({error}); delete it."
            ) from error
        if _is_running(state):
            return DetachedServer(state, gone=None)
        remove_leftovers(state.directory)
        reason = self.last_words.read_text() if self.last_words.exists() else "its warden was killed"
        start = f"headgate {self._command} up"
        return DetachedServer(
            state, f"the {self._noun} at {state.address} is gone: {reason}; start another with: {start}."
        )

    def down(self) -> DetachedServer[StateT] | None:
        """Stop the server and delete its state file; return what was found."""
        found = self.status()
        if found is not None and found.gone is None:
            _stop_warden(found.state)
        self._forget()
        return found

    def _forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self.last_words.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lock = self.file.with_suffix(".lock").open("a")
        except OSError as error:
            raise self._not_written(error) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _not_written(self, error: OSError) -> InputError | OutputError:
        return not_written(f"{self.file} cannot be written", error)


def _stop_warden(state: ServerState) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.warden_pid, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S + 5
    while _is_running(state) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    if _is_running(state):
        os.killpg(state.warden_pid, signal.SIGKILL)
        remove_leftovers(state.directory)


def _is_running(state: ServerState) -> bool:
    # The process id may belong to another process by now, so the command line is compared as well.
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(state.warden_pid)
        return WARDEN in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    return False


def remove_leftovers(directory: str) -> None:
    """Kill what still runs in the folder of servers, and remove the folder."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(directory):
                process.kill()
    shutil.rmtree(directory, ignore_errors=True)
