"""One job of another service, as a service that stands by follows it: ready to be gone on with at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from headgate.core.types import JSON, Decision, Instant, Observation, Receipt, Role
from headgate.core.window import History
from headgate.journal.contract import ReadableJournal
from headgate.journal.reader import News
from headgate.journal.sizes import CLOCKS_AGREE_S, size_after
from headgate.runtime.learned import budget_key, startup_key, state_key
from headgate.runtime.recalling import LONGEST_BREAK_S, Past, history_for, recall, remember
from headgate.service.config.model import JobSpec
from headgate.service.jobs import ENGINE


class FollowedJob:
    """What a journal tells of a job until now; ``take`` adds what is new in it."""

    def __init__(self, spec: JobSpec, journal: ReadableJournal, now: Instant) -> None:
        self.spec = spec
        policy, shadows = spec.make_policy(), spec.make_shadows()
        self._empty: Callable[[], History] = partial(history_for, spec.topology, policy, shadows)
        learned = [state_key(spec.name, spec.topology.operators, one) for one in (policy, *shadows)]
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
        self._has_news = False

    @property
    def _seen_s(self) -> Instant | None:
        seen = self._history.observations
        return seen[-1].at_s if seen else None

    def take(self, news: News) -> None:
        """Add an entry; one that was there from the beginning is not counted twice."""
        same = (ENGINE, self.spec.topology.operators)
        if (news.run.engine, news.run.operators) != same or news.number < self._begins_with:
            return
        entry = news.entry
        if isinstance(entry, Observation):
            self._take_seen(news.number, entry)
        elif news.number < self._run:
            return
        elif isinstance(entry, Receipt):
            self._receipts.append(entry)
        elif entry.role is Role.ACTING and (self._decision is None or entry.at_s > self._decision.at_s):
            remember(self._history, entry)
            self._decision, self._receipts, self._has_news = entry, [], True

    def _take_seen(self, number: int, seen: Observation) -> None:
        before_s = self._seen_s
        if before_s is not None and seen.at_s <= before_s:
            return
        if number > self._run:
            self._run, self._decision, self._receipts = number, None, []
            if before_s is not None and seen.at_s - before_s > LONGEST_BREAK_S:
                self._history, self._begins_with = self._empty(), number
        remember(self._history, seen)
        self._has_news = True

    @property
    def sizes(self) -> Mapping[str, int]:
        """What each operator had last."""
        if not self._has_news:
            return self._sizes
        history = self._history
        seen = {name: one.planned for name in history.operators if (one := history.instances(name)) is not None}
        found = {name: size_after(name, seen.get(name), self._decision, self._receipts) for name in history.operators}
        return {name: size for name, size in found.items() if size is not None}

    def past(self, now: Instant, states: Mapping[str, Mapping[str, JSON]]) -> Past:
        """What a loop goes on with; it is given away, and must not be added to any more."""
        seen_s = self._seen_s
        is_recent = seen_s is not None and 0 <= now - seen_s <= LONGEST_BREAK_S
        return Past(self._history if is_recent else self._empty(), self.sizes, states.get)
