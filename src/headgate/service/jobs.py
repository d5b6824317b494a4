"""One job that a service looks after: the mailbox of its agents, its control loop, and what was seen last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headgate.core.contracts import Engine, Guard, ReportsEvents
from headgate.core.errors import UnknownNameError
from headgate.core.slo import DAY_S
from headgate.core.spending import SpendingKeeper, paid_instances
from headgate.core.types import JSON, Decision, Event, Instant, Observation
from headgate.engines.agents import AgentsEngine, Reply, Report
from headgate.engines.agents.mailbox import LOST_AFTER_S
from headgate.journal.contract import Journal
from headgate.runtime.assembly import AssembledLoop, open_loop
from headgate.runtime.clock import Clock
from headgate.runtime.loop import ControlLoop, Mode
from headgate.runtime.past import Past
from headgate.service.changed import Steering, changed, loop_spec, require_usable
from headgate.service.config.model import JobSpec
from headgate.service.published_journal import EntryListener, PublishedJournal
from headgate.service.store.changes import Change

HOUR_S = 3600.0
_PARTS = 24
"""The most instances are kept for each of so many parts of the day."""


@dataclass(frozen=True, slots=True)
class Used:
    """Of the last day, as far as it is known."""

    instance_hours: float
    known_s: float
    most: int
    """The most instances of all operators together."""

    @property
    def fixed_hours(self) -> float:
        """What a job of that size would have had in the same time."""
        return self.most * self.known_s / HOUR_S

    @property
    def saved(self) -> float | None:
        """The share that was saved against it; ``None`` while nothing is known."""
        return 1 - self.instance_hours / self.fixed_hours if self.fixed_hours > 0 else None


class Day:
    """Instance hours of the last day and the most instances at once, to compare with a fixed size; a loop's watcher.

    >>> from headgate.core.types import Instances
    >>> day = Day(("job",))
    >>> for hour, size in enumerate((2, 2, 6, 2)):
    ...     day(Observation(3600.0 * hour, {}, {"job": Instances(size, size, size)}), None)
    >>> used = day.used(3 * 3600.0)
    >>> round(used.instance_hours, 3), used.known_s / 3600, used.most, round(used.fixed_hours, 3)
    (10.0, 3.0, 6, 18.0)
    """

    def __init__(self, operators: Sequence[str]) -> None:
        self._hours = SpendingKeeper(dict.fromkeys(operators, 1.0))
        self._most: dict[int, int] = {}

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is None:
            return
        self._hours.observe(observation)
        part = int(observation.at_s * _PARTS // DAY_S)
        size = sum(paid_instances(instances) for instances in observation.instances.values())
        if part not in self._most:
            self._most = {old: most for old, most in self._most.items() if old > part - _PARTS}
        self._most[part] = max(size, self._most.get(part, 0))

    def used(self, now: Instant) -> Used:
        hours, known_s = self._hours.spent(DAY_S, now)
        return Used(hours, known_s, max(dict(self._most).values(), default=0))


ENGINE = "agents"
MISSED_REPORTS = 3
"""An agent that missed so many reports is lost."""


def _nobody(entry: Decision | Event) -> None:
    return None


def mailbox_of(spec: JobSpec, clock: Clock, sizes: Mapping[str, int] | None = None, term: int = 0) -> AgentsEngine:
    """Where the agents of a job report, and are told their sizes; ``sizes`` are what it had last."""
    every_s = spec.reported_every_s
    starts = {
        operator.name: max(1, operator.min_instances) if operator.starts is None else operator.starts
        for operator in spec.operators
    }
    return AgentsEngine(
        spec.topology,
        starts={**starts, **(sizes or {})},
        now=clock.now,
        report_every_s=every_s,
        lost_after_s=max(LOST_AFTER_S, MISSED_REPORTS * every_s),
        term=term,
    )


class Job:
    """One job with its loop, stepped by the scheduler; safe to use from any thread.

    - ``engine``: the mailbox of its agents; one is made where none is given
    - ``over``: what the loop sees of it, where that is more than the mailbox tells
    - ``further``: what else is told of the job's state
    - ``guards``: have the last word on every decision, such as those of a group's quotas
    - ``wired``: is given its loop, and each one that takes its place
    - ``on_entry``: is told of decisions and events
    - ``term``: in which the service leads that looks after it, where several share its journal: nothing is carried out
      then that could not be journalled
    - ``changes``: what was asked for while it ran before
    - ``past``: gives what is known of it from before, where that need not be read from the journal
    """

    def __init__(  # noqa: PLR0913 - one keyword per part of a job
        self,
        spec: JobSpec,
        journal: Journal,
        clock: Clock,
        *,
        engine: AgentsEngine | None = None,
        over: Callable[[AgentsEngine], Engine] = lambda engine: engine,
        further: Callable[[], Mapping[str, JSON]] = dict,
        guards: Sequence[Guard] = (),
        wired: Callable[[ControlLoop], None] = lambda loop: None,
        on_entry: EntryListener = _nobody,
        term: int | None = None,
        changes: Sequence[Change] = (),
        past: Callable[[JobSpec], Past | None] = lambda spec: None,
    ) -> None:
        self.requested = spec
        """As the file says; ``spec`` is what holds now."""
        self.changes = tuple(changes)
        """What was asked for since, and holds."""
        self.spec = changed(spec, changes)
        self.steering = Steering()
        self.steering.take(changes)
        self.clock = clock
        self.journal = PublishedJournal(journal, on_entry)
        known = past(self.spec)
        self.began_with = journal.last_sizes(spec.name) if known is None else known.sizes
        """The sizes it had before."""
        self.engine = engine or mailbox_of(self.spec, clock, self.began_with, term or 0)
        self._is_shared = term is not None
        self._seen_engine = over(self.engine)
        self._further = further
        self._guards = tuple(guards)
        self._on_wired = wired
        self._lock = threading.RLock()
        self._closed = False
        self.ticks = 0
        self.ticked_s: float | None = None
        """When it was last stepped."""
        self.observation: Observation | None = None
        """What was seen last; an operator without a new reading is told of as it was read last."""
        self.decision: Decision | None = None
        self.day = Day(self.operators)
        """What it had in the last day."""
        self._assembled = self._open(known)

    @property
    def loop(self) -> ControlLoop:
        return self._assembled.loop

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def operators(self) -> tuple[str, ...]:
        return self.spec.topology.operators

    def _open(self, past: Past | None = None) -> AssembledLoop:
        spec = replace(
            loop_spec(self.spec), journal=self.journal, requires_journal=self._is_shared, last_guards=(self.steering,)
        )
        assembled = open_loop(spec, self._seen_engine, self.clock, engine_name=ENGINE, past=past)
        loop = assembled.loop
        loop.shared_guards += self._guards
        if not isinstance(self._seen_engine, ReportsEvents):
            loop.chores.append(self._note_agents)
        loop.chores.append(self._end_changes)
        loop.watchers.append(self._watch)
        self._on_wired(loop)
        return assembled

    # ---------------------------------------------------------------------------------------------- for the scheduler

    def tick(self) -> Decision | None:
        """One cycle of its loop; nothing once it is closed."""
        with self._lock:
            if self._closed:
                return None
            self.ticks += 1
            self.ticked_s = self.clock.now()
            return self.loop.tick()

    def begin(self, term: int | None = None) -> None:
        """Note that it is looked after from now on; by another service than before, in the term that is given."""
        only = ", recommending only" if self.loop.mode is Mode.RECOMMEND else ""
        how = f"policy {self.spec.policy}, every {self.spec.interval_s:g} s{only}"
        if term is None:
            self.loop.note("started", how)
        else:
            # One entry, not two: a thousand jobs are waiting to be taken on.
            self.loop.note("leader-changed", f"another service looks after {self.name}, in term {term}: {how}")

    def look(self) -> None:
        """See what agents report, and neither decide on it nor learn from it."""
        with self._lock:
            self.ticks += 1
            self._watch(self._seen_engine.observe(), None)

    def _note_agents(self) -> None:
        for event in self.engine.take_events():
            self.loop.note(event.kind, event.detail, at_s=event.at_s, severity=event.severity)

    def _watch(self, observation: Observation | None, decision: Decision | None) -> None:
        before = self.observation
        if observation is not None and before is not None:
            observation = replace(observation, samples={**before.samples, **observation.samples})
        self.observation, self.decision = observation or before, decision or self.decision
        self.day(observation, decision)

    # -------------------------------------------------------------------------------------------- for those who operate

    def steer(self, changes: Sequence[Change], text: str) -> None:
        """Have these changes in force from the next decision on, in place of those before; ``text`` is for the journal.

        One that cannot be used is an ``InputError``, and everything stays as it was.
        """
        self._become(self.requested, changes, text)

    def ask(self, spec: JobSpec, text: str) -> None:
        """Go on as the file says now, for the same operators."""
        self._become(spec, self.changes, text)

    def _become(self, requested: JobSpec, changes: Sequence[Change], text: str) -> None:
        with self._lock:
            before, wanted = self.spec, changed(requested, changes)
            require_usable(wanted)
            self.requested, self.changes, self.spec = requested, tuple(changes), wanted
            self.steering.take(changes)
            self.loop.note("changed", text)
            if _needs_new_loop(before, wanted):
                # Budgets, bounds and shadows belong to a loop; what was seen and learned the new one finds again.
                self.engine.size_by(wanted.topology)
                self.loop.save_state()
                self._assembled = self._open()
            elif _decides_otherwise(before, wanted):
                self._assembled.reconfigure(replace(loop_spec(wanted), last_guards=(self.steering,)), text)
            if wanted.mode is not self.loop.mode or wanted.mode is not before.mode:
                self._set_mode(wanted.mode)

    def _set_mode(self, mode: Mode) -> None:
        self.loop.mode = mode
        if mode is Mode.RECOMMEND:
            # Whoever scales the job now must not be worked against by agents that still go by the last decision.
            self.engine.want_nothing()

    def _end_changes(self) -> None:
        """Take back what was asked for a time only, when that is over."""
        now = self.clock.now()
        over = [change for change in self.changes if not change.holds_at(now)]
        if over:
            named = ", ".join(f"{change.kind} {change.name}".strip() for change in over)
            self.steer([change for change in self.changes if change.holds_at(now)], f"the time of {named} is over")

    # ------------------------------------------------------------------------------------------------ for those who ask

    def report(self, operator: str, report: Report) -> Reply:
        """Take in what an agent says, and tell it what is wanted of it."""
        return self.engine.report(operator, report)

    @contextmanager
    def at_rest(self) -> Iterator[ControlLoop]:
        """Its loop, between two steps: what is looked at together belongs together."""
        with self._lock:
            yield self.loop

    def further_state(self) -> Mapping[str, JSON]:
        return self._further()

    def require_operator(self, name: str) -> None:
        if name not in self.operators:
            raise UnknownNameError("operator", name, self.operators)

    def abandon(self) -> None:
        """Let go of it without a word, as somebody who may not write any more. Twice is fine."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.engine.close()
                self.journal.close()

    def close(self, why: str = "the service ends") -> None:
        """Save what was learned and let go of the agents, whose jobs keep their sizes. Twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.loop.note("stopped", f"{why}; the job keeps its size")
            self.loop.save_state()
            self.engine.close()
            self.journal.close()


def _needs_new_loop(before: JobSpec, wanted: JobSpec) -> bool:
    return (before.topology, before.objective, before.shadows) != (wanted.topology, wanted.objective, wanted.shadows)


def _decides_otherwise(before: JobSpec, wanted: JobSpec) -> bool:
    def decides(spec: JobSpec) -> tuple[object, ...]:
        return spec.policy, dict(spec.settings), dict(spec.guards), spec.constraints, spec.seed

    return decides(before) != decides(wanted)
