"""Follow the journals of all jobs while another service leads, so that a standby can take over at once.

Reading an hour of a job takes tens of milliseconds, too long to start with when a thousand jobs wait. A standby reads
ahead, a few jobs per check, and then only new entries. A new leader catches up with the last entries and then has
everything, because the former leader can no longer write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from headgate.core.errors import HeadgateError
from headgate.core.types import JSON, Decision, Instant, Observation, Receipt, Role
from headgate.core.window import History
from headgate.journal.contract import CLOCKS_AGREE_S, ReadableJournal, budget_key, size_after, startup_key, state_key
from headgate.journal.database import AT_ONCE, JournalFollower, NewEntry
from headgate.runtime.past import LONGEST_BREAK_S, Past, history_for, in_order, recall, remember
from headgate.service.applied_changes import loop_spec
from headgate.service.config.model import JobSpec
from headgate.service.jobs import ENGINE
from headgate.service.store import Store

logger = logging.getLogger("headgate")


class WarmJob:
    """The recent history of a job from its journal; ``take`` adds new entries."""

    def __init__(self, spec: JobSpec, journal: ReadableJournal, now: Instant) -> None:
        self.spec = spec
        parts = loop_spec(spec).parts(spec.topology)
        self._empty: Callable[[], History] = partial(history_for, spec.topology, parts.policy, parts.shadows)
        policies = (parts.policy, *parts.shadows)
        learned = [state_key(spec.name, spec.topology.operators, policy) for policy in policies]
        self.keys = (*learned, startup_key(spec.name), budget_key(spec.name))
        """Keys of what it has learned."""
        self._sizes = journal.last_sizes(spec.name)
        self._history = self._empty()
        recall(journal, spec.name, ENGINE, self._history, now)
        newest = journal.newest_run(spec.name)
        self._run = 0 if newest is None else newest[0]
        """The newest run with an entry."""
        self._first_run = 0
        """The first run that the history covers; earlier ones ended too long before it."""
        decided = self._history.decisions
        self._decision: Decision | None = None
        """The newest decision of that run."""
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
        """Add an entry, unless it was read with the history already."""
        same = (ENGINE, self.spec.topology.operators)
        if (entry_of_run.run.engine, entry_of_run.run.operators) != same or entry_of_run.number < self._first_run:
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
                self._history, self._first_run = self._empty(), number
        remember(self._history, seen)
        self._has_new_entry = True

    @property
    def sizes(self) -> Mapping[str, int]:
        """The last known size of each operator."""
        if not self._has_new_entry:
            return self._sizes
        history = self._history
        seen = {name: size.planned for name in history.operators if (size := history.instances(name)) is not None}
        found = {name: size_after(name, seen.get(name), self._decision, self._receipts) for name in history.operators}
        return {name: size for name, size in found.items() if size is not None}

    def past(self, now: Instant, states: Mapping[str, Mapping[str, JSON]]) -> Past:
        """Hand over the past that a loop continues from; nothing may be added to this job afterwards."""
        seen_s = self._seen_s
        is_recent = seen_s is not None and 0 <= now - seen_s <= LONGEST_BREAK_S
        return Past(self._history if is_recent else self._empty(), self.sizes, states.get)


FOLLOW_EVERY_S = 1.0
"""How often a warm standby reads new entries, which bounds what a new leader has to catch up with."""
READ_AHEAD_S = 0.2
"""Reading ahead stops after about this time, because a standby must check the lease in between."""


class WarmJobs:
    """Follows the jobs of a store that another service writes; for one thread at a time."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self._store = store
        self._now = now
        self._following: JournalFollower | None = None
        self._jobs: dict[str, WarmJob] = {}
        self._unusable: set[str] = set()
        self.is_warm = False
        """Whether all jobs are followed."""
        self._checked_s = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether it is time to read new entries."""
        return not self.is_warm or self._now() - self._checked_s >= FOLLOW_EVERY_S

    def follow(self, specs: Sequence[JobSpec]) -> None:
        """Read new entries, and the history of some of the jobs that are not followed yet."""
        self.is_warm, self._checked_s = False, self._now()
        until_s = time.monotonic() + READ_AHEAD_S
        if self._following is None:
            # First, so that no entry is missed that is written while a job is read.
            self._following = self._store.following()
        while is_behind := self._take_new(self._following) >= AT_ONCE:
            if time.monotonic() >= until_s:
                break
        named = {spec.name: spec for spec in specs}
        self._jobs = {name: job for name, job in self._jobs.items() if named.get(name) == job.spec}
        journal = self._following.reader
        for spec in specs:
            if spec.name not in self._jobs and spec.name not in self._unusable:
                try:
                    self._jobs[spec.name] = WarmJob(spec, journal, self._now())
                except HeadgateError:
                    raise
                except Exception as error:  # noqa: BLE001 - what is wrong with its entries cannot be known
                    self._give_up(spec.name, error)
                # After at least one job, so that a slow machine gets there as well.
                if time.monotonic() >= until_s:
                    break
        self.is_warm = self._jobs.keys() | self._unusable >= named.keys() and not is_behind

    def _give_up(self, name: str, error: Exception) -> None:
        """Follow a job no more; it is read from the journal when it is taken on."""
        logger.error("what was journalled of job %s cannot be followed", name, exc_info=error)
        self._jobs.pop(name, None)
        self._unusable.add(name)

    def catch_up(self) -> None:
        """Read all remaining entries, as the new leader: no other service writes any more."""
        while self._following is not None and self._take_new(self._following):
            pass

    def _take_new(self, following: JournalFollower) -> int:
        """Read new entries and return their number."""
        entries = following.new_entries()
        for entry in sorted(entries, key=lambda found: in_order(found.entry)):
            if (job := self._jobs.get(entry.run.job)) is not None:
                try:
                    job.take(entry)
                except Exception as error:  # noqa: BLE001 - as above
                    self._give_up(entry.run.job, error)
        return len(entries)

    def states(self, names: Iterable[str]) -> Mapping[str, Mapping[str, JSON]]:
        """Return the learned state of some jobs, read in one query."""
        keys = [key for name in names if (job := self._jobs.get(name)) is not None for key in job.keys]
        return self._following.reader.load_states(keys) if self._following is not None and keys else {}

    def take(self, spec: JobSpec, states: Mapping[str, Mapping[str, JSON]]) -> Past | None:
        """Return the past of a job and stop following it; ``None`` if it has to be read from the journal."""
        job = self._jobs.pop(spec.name, None)
        return job.past(self._now(), states) if job is not None and job.spec == spec else None

    def forget(self) -> None:
        """Forget everything, and start again with the next ``follow``."""
        if self._following is not None:
            self._following.close()
        self._following, self._jobs, self._unusable, self.is_warm = None, {}, set(), False
