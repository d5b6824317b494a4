"""What a warden starts, and what it shares with the process that starts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

STOP_TIMEOUT_S = 8.0
POLL_S = 0.1
KEEP_RUNNING = b"+"
"""Written to a warden's standard input by a parent that its servers are to outlive."""


@dataclass(frozen=True)
class ServerProcess:
    """One process that a warden runs."""

    name: str
    command: Sequence[str]
    is_up: Callable[[], bool] | None
    """``None`` for a process that does its work and ends; the next is started then."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_restarted: bool = False
    """Whether it is restarted when it ends by itself; otherwise the warden stops all servers."""


class ServerPlan(Protocol):
    """Servers that start and stop together. Its fields are JSON, in which form it reaches the warden."""

    @property
    def directory(self) -> str:
        """The folder of their logs and data, in which they run; it is removed with them."""

    @property
    def last_words(self) -> str | None:
        """The file in which the warden writes why it ended by itself; ``None`` for none."""

    def servers(self) -> Iterator[ServerProcess]:
        """Yield the servers in the order of their start: each is started when the one before it is up."""


@runtime_checkable
class ChangingPlan(ServerPlan, Protocol):
    """A plan of which some servers come and go while the others run."""

    def wanted(self) -> Iterator[ServerProcess]:
        """Yield the servers that are to run besides ``servers`` now; a name always stands for the same server."""


def log_file(directory: str, name: str) -> Path:
    """Return the file that a server of a plan prints to."""
    return Path(directory, f"{name}.log")
