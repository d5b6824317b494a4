"""Servers that go on after the command that started them: one of a kind per user, found again by a state file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from headgate.core.errors import InputError, OutputError, not_written
from headgate.core.extras import needing
from headgate.local import warden
from headgate.local.keeper import WARDEN

with needing("a server on this machine"):
    import psutil


class State(Protocol):
    """What is written about a detached server; its fields are JSON."""

    @property
    def warden_pid(self) -> int: ...

    @property
    def directory(self) -> str: ...

    @property
    def address(self) -> str: ...


S = TypeVar("S", bound=State)
S_co = TypeVar("S_co", bound=State, covariant=True)


class Detachable(Protocol[S_co]):
    """Servers that end with this process until they are let go."""

    def start(self, *, detached: bool) -> S_co: ...

    def let_go(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Found(Generic[S]):
    """A detached server that was started and not stopped."""

    state: S
    gone: str | None
    """A sentence about how it ended by itself; ``None`` while it is up."""


class Detached(Generic[S]):
    """``command`` is the one that starts and stops it, ``noun`` how messages call it."""

    def __init__(self, command: str, noun: str, kind: type[S]) -> None:
        self._command = command
        self._noun = noun
        self._kind = kind

    @property
    def file(self) -> Path:
        """Where the one that is up is written down."""
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return Path(base, "headgate", f"{self._command}.json")

    @property
    def last_words(self) -> Path:
        """Where its warden writes why it ended by itself."""
        return self.file.with_suffix(".ended")

    def up(self, server: Detachable[S]) -> S:
        """Start one that goes on after this process; there is one at a time."""
        with self._one_at_a_time():
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
            server.let_go()  # Not before it can be found again.
            return state

    def status(self) -> Found[S] | None:
        """The one that was started, if any; what one that ended by itself left behind is cleared away."""
        try:
            state = self._kind(**json.loads(self.file.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"the state file {self.file} of the {self._noun} cannot be read ({error}); delete it."
            ) from error
        if _is_kept(state):
            return Found(state, gone=None)
        _sweep(state.directory)
        reason = self.last_words.read_text() if self.last_words.exists() else "its warden was killed"
        start = f"headgate {self._command} up"
        return Found(state, f"the {self._noun} at {state.address} is gone: {reason}; start another with: {start}.")

    def down(self) -> Found[S] | None:
        """Stop it, and forget it; gives what was found."""
        found = self.status()
        if found is not None and found.gone is None:
            _stop(found.state)
        self._forget()
        return found

    def _forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self.last_words.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
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


def _stop(state: State) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.warden_pid, signal.SIGTERM)
    deadline_s = time.monotonic() + warden.STOP_TIMEOUT_S + 5
    while _is_kept(state) and time.monotonic() < deadline_s:
        time.sleep(warden.POLL_S)
    if _is_kept(state):
        os.killpg(state.warden_pid, signal.SIGKILL)
        _sweep(state.directory)


def _is_kept(state: State) -> bool:
    # The number may belong to another process by now, so the command line is asked as well.
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(state.warden_pid)
        return WARDEN in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _sweep(directory: str) -> None:
    """Take down what runs in a folder whose warden was killed, and remove it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(directory):
                process.kill()
    shutil.rmtree(directory, ignore_errors=True)
