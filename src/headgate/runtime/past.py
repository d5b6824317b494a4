"""What a loop continues from after an earlier one: observations, decisions, sizes and learned state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.reading_gate import ReadingGate
from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Instant, Observation, Receipt, Role
from headgate.core.window import DEFAULT_RETENTION_S, History
from headgate.journal.contract import CLOCKS_AGREE_S, ReadableJournal
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import AnyPolicy

_SQLITE = b"SQLite format 3\x00"


def read_state(path: Path | str, policy: str) -> Mapping[str, JSON]:
    """Return the snapshot of a policy from a snapshot file or a journal."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            is_journal = file.read(len(_SQLITE)) == _SQLITE
        text = "" if is_journal else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is neither a snapshot in JSON nor a journal.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    state = _from_journal(path, policy) if is_journal else _from_text(path, text)
    if state.get("policy") != policy:
        raise InputError(f"{path} holds the state of policy {state.get('policy')!r}; that of {policy!r} is needed.")
    return state


def _from_journal(path: Path, policy: str) -> Mapping[str, JSON]:
    with closing(SqliteJournal.read(path)) as journal:
        found = [
            state
            for key in journal.state_keys()
            if f"/policy/{policy}/" in key and (state := journal.load_state(key)) is not None
        ]
    if not found:
        raise InputError(f"journal {path} holds nothing that policy {policy!r} has learned.")
    return found[-1]


def _from_text(path: Path, text: str) -> Mapping[str, JSON]:
    if not text.strip():
        raise InputError(f"{path} is not a snapshot: it is empty.")
    try:
        state = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not a snapshot: {error}.") from error
    if not isinstance(state, Mapping):
        raise InputError(f"{path} is not a snapshot: it holds {type(state).__name__}, an object is needed.")
    return state


LONGEST_BREAK_S = 60.0
"""A loop that is back within this time continues as if there had been no break."""


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier loop left."""

    history: History
    """Observations and decisions; it becomes the loop's own."""
    sizes: Mapping[str, int]
    """The last size of each operator."""
    state: Callable[[str], Mapping[str, JSON] | None]
    """Returns what was saved under a key."""


def history_for(
    topology: Topology, policy: AnyPolicy, shadows: Sequence[AnyPolicy] = (), starts_at_s: float = 0.0
) -> History:
    """Return an empty history that is as long as the policies look back."""
    lasts_s = max(DEFAULT_RETENTION_S, *(each.lookback_s for each in (policy, *shadows)))
    return History(topology, lasts_s, policy.objective, starts_at_s)


def read_past(journal: ReadableJournal, job: str, engine: str, history: History, now: Instant) -> Past:
    """Return what a journal has of a job; an empty history is filled with it."""
    recall(journal, job, engine, history, now)
    return Past(history, journal.last_sizes(job), journal.load_state)


def recall(journal: ReadableJournal, job: str, engine: str, history: History, now: Instant) -> None:
    """Go back through the runs of a job, as long as one followed the other without a longer break."""
    since_s = now - history.retention_s
    spans = journal.spans(job, since_s)
    runs = dict(journal.runs(job)) if spans else {}
    chosen: list[int] = []
    next_s = now
    # A run that ended before its first observation is no break: it is skipped, and the run before it counts.
    for number, (first_s, last_s) in reversed(spans.items()):
        run = runs.get(number)
        # After a longer break it may be another job, and the readings would be those of the old one.
        if run is None or (run.engine, run.operators) != (engine, history.operators):
            break
        if not 0 <= next_s - last_s <= LONGEST_BREAK_S:
            break
        chosen.insert(0, number)
        next_s = first_s
    if chosen:
        seen = journal.observations(run=chosen, since_s=since_s)
        decided = journal.decisions(run=chosen, since_s=since_s)
        entries: list[Observation | Decision] = [*seen, *decided]
        # What an earlier version saw may not have passed a gate.
        gate = ReadingGate()
        for entry in sorted(entries, key=in_order):
            if isinstance(entry, Decision):
                remember(history, entry)
            else:
                with suppress(EngineError):
                    remember(history, gate.check(entry).observation)


def in_order(entry: Observation | Decision | Receipt) -> Instant:
    """Return the sort key that restores the order of journal entries: a loop observes, then decides."""
    return entry.at_s if isinstance(entry, Observation) else entry.at_s + CLOCKS_AGREE_S


def remember(history: History, entry: Observation | Decision) -> None:
    """Add an observation or a decision of an earlier loop as if it were this one's."""
    if isinstance(entry, Observation):
        history.observe(entry)
    elif entry.role is Role.ACTING:
        history.record(entry)
