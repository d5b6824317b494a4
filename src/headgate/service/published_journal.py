"""A journal whose entries somebody hears of as they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal.contract import Journal, Runs
from headgate.journal.retention import Thinned

EntryListener: TypeAlias = Callable[[Decision | Event], None]


class PublishedJournal:
    """Writes to ``journal``, and tells ``on_entry`` of decisions and events."""

    def __init__(self, journal: Journal, on_entry: EntryListener) -> None:
        self._journal = journal
        self._on_entry = on_entry
        self.run: int | None = None
        """The number of the run that is being written."""

    def begin(self, run: Run) -> int:
        self.run = self._journal.begin(run)
        return self.run

    def observed(self, observation: Observation) -> None:
        self._journal.observed(observation)

    def decided(self, decision: Decision) -> None:
        self._journal.decided(decision)
        self._on_entry(decision)

    def received(self, receipt: Receipt) -> None:
        self._journal.received(receipt)

    def noted(self, event: Event) -> None:
        self._journal.noted(event)
        self._on_entry(event)

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        self._journal.save_state(key, state)

    def jobs(self) -> list[str]:
        return self._journal.jobs()

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        return self._journal.runs(job)

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        return self._journal.newest_run(job)

    def last_sizes(self, job: str) -> dict[str, int]:
        return self._journal.last_sizes(job)

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        return self._journal.spans(job, since_s)

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]:
        return self._journal.observations(run=run, since_s=since_s)

    def decisions(self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None) -> list[Decision]:
        return self._journal.decisions(run=run, since_s=since_s, last=last)

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        return self._journal.receipts(run=run, since_s=since_s)

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        return self._journal.events(run=run, since_s=since_s)

    def thinned(self, *, run: int | None = None) -> Thinned:
        return self._journal.thinned(run=run)

    def load_state(self, key: str) -> Mapping[str, JSON] | None:
        return self._journal.load_state(key)

    def state_keys(self) -> list[str]:
        return self._journal.state_keys()

    def close(self) -> None:
        self._journal.close()
