"""What the journal has of a job since some time, over the runs of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from headgate.core.types import Decision, Event, Instant, Observation, Receipt
from headgate.journal.contract import ReadableJournal


@dataclass(frozen=True, slots=True)
class Entries:
    """Oldest first."""

    observations: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def entries_since(journal: ReadableJournal, job: str, since_s: Instant) -> Entries:
    """A service that was started again has begun another run of its jobs: what was before belongs to it too."""
    runs = journal.runs(job)
    ends_s = [after.started_s for (_, _), (_, after) in pairwise(runs)] + [float("inf")]
    found = Entries()
    for (number, _), end_s in zip(runs, ends_s, strict=True):
        if end_s < since_s:
            continue
        found.observations.extend(journal.observations(run=number, since_s=since_s))
        found.decisions.extend(journal.decisions(run=number, since_s=since_s))
        found.receipts.extend(journal.receipts(run=number, since_s=since_s))
        found.events.extend(journal.events(run=number, since_s=since_s))
    return found
