"""What a service that stands by keeps ready: all jobs, as if it had looked after them itself.

To read an hour of a job takes tens of milliseconds, too long to begin with it when a thousand jobs wait. So it is read
ahead, a few jobs at each look, and then only what is new. Who comes to lead catches up with what was written last, and
has everything: nobody can write any more who led before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from headgate.core.types import JSON, Decision, Instant, Observation, Receipt, Role
from headgate.core.window import History
from headgate.journal.contract import ReadableJournal
from headgate.journal.reader import AT_ONCE, JournalFollower, NewEntry
from headgate.journal.sizes import CLOCKS_AGREE_S, size_after
from headgate.runtime.past import (
    LONGEST_BREAK_S,
    Past,
    budget_key,
    history_for,
    in_order,
    recall,
    remember,
    startup_key,
    state_key,
)
from headgate.service.config.model import JobSpec
from headgate.service.jobs import ENGINE
from headgate.service.store import Store


class FollowedJob:
    """What a journal tells of a job until now; ``take`` adds what is new in it."""

    def __init__(self, spec: JobSpec, journal: ReadableJournal, now: Instant) -> None:
        self.spec = spec
        policy, shadows = spec.make_policy(), spec.make_shadows()
        self._empty: Callable[[], History] = partial(history_for, spec.topology, policy, shadows)
        learned = [
            state_key(spec.name, spec.topology.operators, acting_or_shadow) for acting_or_shadow in (policy, *shadows)
        ]
        self.keys = (*learned, startup_key(spec.name), budget_key(spec.name))
        """What it has learned is kept under these."""
        self._sizes = journal.last_sizes(spec.name)
        self._history = self._empty()
        recall(journal, spec.name, ENGINE, self._history, now)
        newest = journal.newest_run(spec.name)
        self._run = 0 if newest is None else newest[0]
        """The newest that something was heard of."""
        self._begins_with = 0
        """The first run that the history is of; those before it are another story."""
        decided = self._history.decisions
        self._decision: Decision | None = None
        """The newest of that run."""
        self._receipts: list[Receipt] = []
        if decided and newest is not None and decided[-1].at_s >= newest[1].started_s:
            self._decision = decided[-1]
            self._receipts = journal.receipts(run=self._run, since_s=self._decision.at_s - CLOCKS_AGREE_S)
        self._has_new_entry = False

    @property
    def _seen_s(self) -> Instant | None:
        seen = self._history.observations
        return seen[-1].at_s if seen else None

    def take(self, entry_of_run: NewEntry) -> None:
        """Add an entry; one that was there from the beginning is not counted twice."""
        same = (ENGINE, self.spec.topology.operators)
        if (entry_of_run.run.engine, entry_of_run.run.operators) != same or entry_of_run.number < self._begins_with:
            return
        entry = entry_of_run.entry
        if isinstance(entry, Observation):
            self._take_seen(entry_of_run.number, entry)
        elif entry_of_run.number < self._run:
            return
        elif isinstance(entry, Receipt):
            self._receipts.append(entry)
        elif entry.role is Role.ACTING and (self._decision is None or entry.at_s > self._decision.at_s):
            remember(self._history, entry)
            self._decision, self._receipts, self._has_new_entry = entry, [], True

    def _take_seen(self, number: int, seen: Observation) -> None:
        before_s = self._seen_s
        if before_s is not None and seen.at_s <= before_s:
            return
        if number > self._run:
            self._run, self._decision, self._receipts = number, None, []
            if before_s is not None and seen.at_s - before_s > LONGEST_BREAK_S:
                self._history, self._begins_with = self._empty(), number
        remember(self._history, seen)
        self._has_new_entry = True

    @property
    def sizes(self) -> Mapping[str, int]:
        """What each operator had last."""
        if not self._has_new_entry:
            return self._sizes
        history = self._history
        seen = {name: size.planned for name in history.operators if (size := history.instances(name)) is not None}
        found = {name: size_after(name, seen.get(name), self._decision, self._receipts) for name in history.operators}
        return {name: size for name, size in found.items() if size is not None}

    def past(self, now: Instant, states: Mapping[str, Mapping[str, JSON]]) -> Past:
        """What a loop goes on with; it is given away, and must not be added to any more."""
        seen_s = self._seen_s
        is_recent = seen_s is not None and 0 <= now - seen_s <= LONGEST_BREAK_S
        return Past(self._history if is_recent else self._empty(), self.sizes, states.get)


FOLLOW_EVERY_S = 1.0
"""Who knows all jobs asks so often what is new; whoever comes to lead has no more than that to catch up with."""
LOOK_S = 0.2
"""Reading ahead takes about so long at a time: who stands by must look at the lease in between."""


class WarmJobs:
    """The jobs of a store that others write, followed; to be used by one thread at a time."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self._store = store
        self._now = now
        self._following: JournalFollower | None = None
        self._jobs: dict[str, FollowedJob] = {}
        self._is_warm = False
        self._checked_s = float("-inf")

    @property
    def is_warm(self) -> bool:
        """Whether all jobs are followed."""
        return self._is_warm

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return not self._is_warm or self._now() - self._checked_s >= FOLLOW_EVERY_S

    def look(self, specs: Sequence[JobSpec]) -> None:
        """Take in what is new, and read ahead some of the jobs that are not followed yet."""
        self._is_warm, self._checked_s = False, self._now()
        until_s = time.monotonic() + LOOK_S
        if self._following is None:
            # First, so that nothing is missed that is written while a job is read.
            self._following = self._store.following()
        while is_behind := self._take_new(self._following) >= AT_ONCE:
            if time.monotonic() >= until_s:
                break
        named = {spec.name: spec for spec in specs}
        self._jobs = {name: job for name, job in self._jobs.items() if named.get(name) == job.spec}
        journal = self._following.reader
        for spec in specs:
            if spec.name not in self._jobs:
                self._jobs[spec.name] = FollowedJob(spec, journal, self._now())
                # After one at least: a machine that is slow gets there as well.
                if time.monotonic() >= until_s:
                    break
        self._is_warm = len(self._jobs) == len(named) and not is_behind

    def catch_up(self) -> None:
        """Take in all that is left to be, as whoever has come to lead: nothing is written beside it any more."""
        while self._following is not None and self._take_new(self._following):
            pass

    def _take_new(self, following: JournalFollower) -> int:
        """Gives how much there was."""
        news = following.new_entries()
        for entry in sorted(news, key=lambda found: in_order(found.entry)):
            if (job := self._jobs.get(entry.run.job)) is not None:
                job.take(entry)
        return len(news)

    def states(self, names: Iterable[str]) -> Mapping[str, Mapping[str, JSON]]:
        """What some jobs have learned, read at once."""
        keys = [key for name in names if (job := self._jobs.get(name)) is not None for key in job.keys]
        return self._following.reader.load_states(keys) if self._following is not None and keys else {}

    def take(self, spec: JobSpec, states: Mapping[str, Mapping[str, JSON]]) -> Past | None:
        """What a job's loop goes on with, which is not followed from then on; ``None`` where it has to be read."""
        job = self._jobs.pop(spec.name, None)
        return job.past(self._now(), states) if job is not None and job.spec == spec else None

    def forget(self) -> None:
        """Begin anew with the next look."""
        if self._following is not None:
            self._following.close()
        self._following, self._jobs, self._is_warm = None, {}, False
