"""What a journal must offer. Whatever is written here can be read while it is being written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeAlias

from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal.retention import Thinned

Runs: TypeAlias = int | Collection[int] | None
"""The number of a run, those of several that are read as one, or ``None`` for the newest of all."""


class ReadableJournal(Protocol):
    """The reading half of a journal: runs of jobs, and what was seen, decided, done and learned in them.

    Entries are those of the newest run of all, unless another run is named by its number. They come oldest first,
    those at or after ``since_s`` where that is set, and only the ``last`` few where that is.
    """

    def jobs(self) -> list[str]:
        """The names of the jobs that have a run here, the one that began a run last at the end."""
        ...

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        """The runs by number, of all jobs or of one."""
        ...

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        """The run that began last, of all jobs or of one."""
        ...

    def last_sizes(self, job: str) -> dict[str, int]:
        """The planned size that each operator of a job's newest run had last, as far as it is known."""
        ...

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        """When the first and the last observation at or after a time were made, by run of a job, oldest run first.

        Runs that saw nothing in that time are left out.
        """
        ...

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]: ...

    def decisions(
        self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None
    ) -> list[Decision]: ...

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]: ...

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]: ...

    def thinned(self, *, run: int | None = None) -> Thinned:
        """Where entries of a run are no longer all there, because they are old."""
        ...

    def load_state(self, key: str) -> Mapping[str, JSON] | None: ...

    def state_keys(self) -> list[str]:
        """The keys that there is state under, the one saved last at the end."""
        ...

    def close(self) -> None: ...


class Journal(ReadableJournal, Protocol):
    """The memory of control loops. One object is one writer: what it writes belongs to the run that it began last.

    Several writers may share what they write to; each keeps to its own run.
    """

    def begin(self, run: Run) -> int:
        """Start a new run and give its number; runs are numbered from 1."""
        ...

    def observed(self, observation: Observation) -> None: ...

    def decided(self, decision: Decision) -> None: ...

    def received(self, receipt: Receipt) -> None: ...

    def noted(self, event: Event) -> None: ...

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        """Keep learned state under a key; state outlives the run and the newest one wins."""
        ...
