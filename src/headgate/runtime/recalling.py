"""What a loop begins with where it goes on after another: what was seen and decided, sizes, and what was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Instant, Observation, Receipt, Role
from headgate.core.window import DEFAULT_RETENTION_S, History
from headgate.journal.contract import ReadableJournal
from headgate.journal.sizes import CLOCKS_AGREE_S
from headgate.policies.frame.base import AnyPolicy

LONGEST_BREAK_S = 60.0
"""A loop that comes back within this time goes on as if it had not been away."""


@dataclass(frozen=True, slots=True)
class Past:
    """What was there before a loop."""

    history: History
    """What was seen and decided; it becomes the loop's own."""
    sizes: Mapping[str, int]
    """What each operator had last."""
    state: Callable[[str], Mapping[str, JSON] | None]
    """What was saved under a key."""


def history_for(topology: Topology, policy: AnyPolicy, shadows: Sequence[AnyPolicy] = ()) -> History:
    """A history without anything in it, as long as policies look back."""
    lasts_s = max(DEFAULT_RETENTION_S, *(one.lookback_s for one in (policy, *shadows)))
    return History(topology, lasts_s, policy.objective)


def read_past(journal: ReadableJournal, job: str, engine: str, history: History, now: Instant) -> Past:
    """What a journal tells of a job; a history that is empty is filled with it."""
    recall(journal, job, engine, history, now)
    return Past(history, journal.last_sizes(job), journal.load_state)


def recall(journal: ReadableJournal, job: str, engine: str, history: History, now: Instant) -> None:
    """Go back through the runs of a job, as long as one followed the other without a longer break."""
    since_s = now - history.retention_s
    spans = journal.spans(job, since_s)
    runs = dict(journal.runs(job)) if spans else {}
    chosen: list[int] = []
    next_s = now
    # One that ended before it saw anything is no break: it is left out, and the one before it counts.
    for number, (first_s, last_s) in reversed(spans.items()):
        run = runs.get(number)
        # After a longer break the job may be another one, and its readings would tell of the old one.
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
        for entry in sorted(entries, key=in_order):
            remember(history, entry)


def in_order(entry: Observation | Decision | Receipt) -> Instant:
    """What entries of a journal are to be sorted by, to be as they were made: a loop observes, then decides."""
    return entry.at_s if isinstance(entry, Observation) else entry.at_s + CLOCKS_AGREE_S


def remember(history: History, entry: Observation | Decision) -> None:
    """Add what an earlier loop saw or decided, as if this one had been there."""
    if isinstance(entry, Observation):
        history.observe(entry)
    elif entry.role is Role.ACTING:
        history.record(entry)
