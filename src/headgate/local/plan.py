"""What a warden is told to start, and how it knows that it is up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

TAIL_BYTES = 16_384


@dataclass(frozen=True)
class Server:
    """One process to keep."""

    name: str
    command: Sequence[str]
    is_up: Callable[[], bool] | None
    """``None`` for one that does its work and ends; the next is started then."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_revived: bool = False
    """Whether it is started again when it ends by itself, which otherwise is the end of all."""


class Plan(Protocol):
    """Servers that live and end together. Its fields are JSON: that is how it reaches the warden."""

    @property
    def directory(self) -> str:
        """Their logs and data, and where they run; it goes away with them."""

    @property
    def last_words(self) -> str | None:
        """Where the warden writes why it ended by itself; ``None`` if nobody will look there."""

    def servers(self) -> Iterator[Server]:
        """In the order of their start: each is started when the one before it is up."""


@runtime_checkable
class ChangingPlan(Plan, Protocol):
    """One of which some servers come and go while the others run."""

    def wanted(self) -> Iterator[Server]:
        """Those that are to run beside ``servers`` at this moment; a name stands for one server for good."""


def log_file(directory: str, name: str) -> Path:
    """What a server of a plan prints."""
    return Path(directory, f"{name}.log")


def last_line(log: Path) -> str:
    """The last thing a process said; of a stack trace, what went wrong and not where."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    said = [line for line in lines if line.strip() and not line[0].isspace()]
    return said[-1].strip() if said else "it printed nothing"
