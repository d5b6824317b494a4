"""What a journal must offer. Whatever is written here can be read while it is being written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run


class Journal(Protocol):
    """The memory of control loops: append-only, one run after the other.

    Writing belongs to the newest run; reading does too, unless it is told another run's number. The readers give
    everything at or after ``since_s``, oldest first, and only the ``last`` few where that is set.
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

    def load_state(self, key: str) -> Mapping[str, JSON] | None: ...

    def state_keys(self) -> list[str]:
        """The keys that there is state under, the one saved last at the end."""
        ...

    def runs(self) -> list[tuple[int, Run]]: ...

    def observations(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Observation]: ...

    def decisions(
        self, *, run: int | None = None, since_s: Instant | None = None, last: int | None = None
    ) -> list[Decision]: ...

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]: ...

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]: ...

    def close(self) -> None: ...
