"""A journal that lives and dies with the process: for simulated runs, tests and short looks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal.codec import from_json, to_json
from headgate.journal.contract import Runs, Thinned, last_sizes


class _TimedEntry(Protocol):
    @property
    def at_s(self) -> Instant: ...


T = TypeVar("T", bound=_TimedEntry)


@dataclass(frozen=True, slots=True)
class _RunEntries:
    run: Run
    observations: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class MemoryJournal:
    """Keeps everything, in lists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[_RunEntries] = []
        self._states: dict[str, str] = {}
        self._closed = False

    def begin(self, run: Run) -> int:
        with self._lock:
            self._refuse_closed()
            self._runs.append(_RunEntries(run))
            return len(self._runs)

    def observed(self, observation: Observation) -> None:
        self._newest().observations.append(observation)

    def decided(self, decision: Decision) -> None:
        self._newest().decisions.append(decision)

    def received(self, receipt: Receipt) -> None:
        self._newest().receipts.append(receipt)

    def noted(self, event: Event) -> None:
        self._newest().events.append(event)

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        self._refuse_closed()
        # As text: what the policy changes later must not reach into what was saved.
        self._states.pop(key, None)
        self._states[key] = to_json(state)

    def load_state(self, key: str) -> Mapping[str, JSON] | None:
        text = self._states.get(key)
        return None if text is None else dict(from_json(text))

    def state_keys(self) -> list[str]:
        return list(self._states)

    def jobs(self) -> list[str]:
        newest_first = dict.fromkeys(entries.run.job for entries in reversed(self._runs))
        return list(reversed(newest_first))

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        numbered = [(number, entries.run) for number, entries in enumerate(self._runs, start=1)]
        return [(number, run) for number, run in numbered if job is None or run.job == job]

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        runs = self.runs(job)
        return runs[-1] if runs else None

    def last_sizes(self, job: str) -> dict[str, int]:
        def newest_first(run: int) -> Generator[Observation]:
            yield from reversed(self.observations(run=run))

        return last_sizes(self, job, newest_first)

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        seen = {number: self.observations(run=number, since_s=since_s) for number, _ in self.runs(job)}
        return {number: (found[0].at_s, found[-1].at_s) for number, found in seen.items() if found}

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]:
        return _since([entry for entries in self._of(run) for entry in entries.observations], since_s)

    def decisions(self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None) -> list[Decision]:
        found = _since([entry for entries in self._of(run) for entry in entries.decisions], since_s)
        return found if last is None else found[max(0, len(found) - last) :]

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        entries = self._entries(run)
        return _since(entries.receipts, since_s) if entries else []

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        entries = self._entries(run)
        return _since(entries.events, since_s) if entries else []

    def thinned(self, *, run: int | None = None) -> Thinned:
        return Thinned()

    def close(self) -> None:
        self._closed = True

    def _newest(self) -> _RunEntries:
        self._refuse_closed()
        if not self._runs:
            raise JournalError("nothing can be written to the journal in memory before a run has begun.")
        return self._runs[-1]

    def _of(self, run: Runs) -> list[_RunEntries]:
        numbers = sorted(run) if isinstance(run, Collection) else [run]
        return [entries for number in numbers if (entries := self._entries(number)) is not None]

    def _entries(self, run: int | None) -> _RunEntries | None:
        """The entries of a run, or of the newest one; ``None`` when there is no such run."""
        number = len(self._runs) if run is None else run
        return self._runs[number - 1] if 1 <= number <= len(self._runs) else None

    def _refuse_closed(self) -> None:
        if self._closed:
            raise JournalError("the journal in memory is closed and takes no more entries.")


def _since(entries: list[T], since_s: Instant | None) -> list[T]:
    """Those at or after a time, oldest first; of the same time, as they were written."""
    return sorted(
        (entry for entry in entries if since_s is None or entry.at_s >= since_s), key=lambda entry: entry.at_s
    )
