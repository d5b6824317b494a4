"""A job that a service controls: the mailbox of its agents, its control loop, and its last reading.

An agent may be broken or hostile, and others must not suffer from it.
Events, batches and start-ups that one operator reports have an allowance; what exceeds it is left out, the oldest
first, and an event says so. Texts lose what could be a secret.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from headgate.core.budget import SpendingKeeper
from headgate.core.contracts import Engine, Guard, ReportsEvents
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import DAY_S
from headgate.core.types import JSON, Decision, Event, Instant, Number, Observation, Receipt, Run, Severity
from headgate.engines.agents import AgentsEngine, Reply, Report
from headgate.engines.agents.mailbox import LOST_AFTER_S
from headgate.journal.contract import Journal, Runs, Thinned
from headgate.runtime.assembly import AssembledLoop, open_loop
from headgate.runtime.loop import Clock, ControlLoop, Mode
from headgate.runtime.past import Past
from headgate.service.applied_changes import Steering, changed, loop_spec, require_usable
from headgate.service.config.model import JobSpec
from headgate.service.store.changes import JobChange
from headgate.service.store.tokens import redacted

T = TypeVar("T")
LONGEST_ID = 128
LONGEST_KIND = 64
LONGEST_DETAIL = 2000
MOST_NUMBERS = 32
MOST_METRICS = 200
"""Metrics of an agent, and the most that it may offer."""
EVENTS, BATCHES, STARTUPS = (100, 5.0), (10_000, 200.0), (2000, 50.0)
"""How many of each are taken at once, and per second."""


class Allowance:
    """
    >>> allowance = Allowance(3, 1.0, lambda: 0.0)
    >>> allowance.take(2), allowance.take(2)
    (2, 1)
    """

    def __init__(self, most: int, per_s: float, now: Callable[[], float]) -> None:
        self._most = float(most)
        self._per_s = per_s
        self._now = now
        self._left = self._most
        self._seen_s = now()

    def take(self, wanted: int) -> int:
        """Return how many of those wanted are allowed."""
        now_s = self._now()
        self._left = min(self._most, self._left + max(0.0, now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        taken = min(wanted, int(self._left))
        self._left -= taken
        return taken


class ReportLimits:
    """The allowances of one operator, whichever agent reports for it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._events, self._batches, self._startups = (
            Allowance(most, per_s, now) for most, per_s in (EVENTS, BATCHES, STARTUPS)
        )

    def admitted(self, report: Report) -> Report:
        """Return what is let in of a report; an ``InputError`` for an agent that cannot be named."""
        if not 0 < len(report.agent) <= LONGEST_ID or not report.agent.isprintable():
            raise InputError(f"the name of an agent must have 1 to {LONGEST_ID} printable characters.")
        if len(report.extra_metrics) > MOST_METRICS:
            raise InputError(f"an agent may offer {MOST_METRICS} metrics, not {len(report.extra_metrics)}.")
        sample = report.sample
        if sample is not None and len(sample.metrics) > MOST_METRICS:
            raise InputError(f"a reading may have {MOST_METRICS} metrics, not {len(sample.metrics)}.")
        startups, first_startup = _newest(report.startups, report.first_startup, self._startups)
        events, first_event = _newest(report.events, report.first_event, self._events)
        if events and (left_out := first_event - report.first_event):
            detail = f"{left_out + 1} events of the agent were left out: it reports too many"
            events = (Event(self._now(), "events-left-out", detail, severity=Severity.WARNING), *events[1:])
        first_batch = report.first_batch
        if sample is not None:
            batches, first_batch = _newest(sample.batches, report.first_batch, self._batches)
            sample = replace(sample, batches=batches)
        answer = report.answer
        return replace(
            report,
            sample=sample,
            first_batch=first_batch,
            startups=startups,
            first_startup=first_startup,
            events=tuple(_cut(event) for event in events),
            first_event=first_event,
            answer=None if answer is None else replace(answer, detail=redacted(answer.detail[:LONGEST_DETAIL])),
        )


def _newest(items: tuple[T, ...], first: int, allowance: Allowance) -> tuple[tuple[T, ...], int]:
    """Return the newest items that are allowed, and the number of the first of them."""
    left_out = len(items) - allowance.take(len(items))
    return items[left_out:], first + left_out


def _cut(event: Event) -> Event:
    numbers: dict[str, Number] = {
        name[:LONGEST_KIND]: redacted(value[:LONGEST_DETAIL]) if isinstance(value, str) else value
        for name, value in list(event.numbers.items())[:MOST_NUMBERS]
    }
    detail = redacted(event.detail[:LONGEST_DETAIL])
    return replace(event, kind=event.kind[:LONGEST_KIND], detail=detail, numbers=numbers)


EntryListener: TypeAlias = Callable[[Decision | Event], None]


class PublishedJournal:
    """A journal that also calls ``on_entry`` with decisions and events."""

    def __init__(self, journal: Journal, on_entry: EntryListener) -> None:
        self._journal = journal
        self._on_entry = on_entry
        self.run: int | None = None
        """The number of the current run."""

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


HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Used:
    """Instances used in the last day, as far as that is known."""

    instance_hours: float
    known_s: float

    @property
    def mean_instances(self) -> float:
        """Instances paid for on average, of all operators together."""
        return self.instance_hours * HOUR_S / self.known_s if self.known_s > 0 else 0.0


class Day:
    """Counts instance hours of the last day; a watcher of the loop.

    >>> from headgate.core.types import Instances
    >>> day = Day(("job",))
    >>> for hour, size in enumerate((2, 2, 6, 2)):
    ...     day(Observation(3600.0 * hour, {}, {"job": Instances(size, size, size)}), None)
    >>> used = day.used(3 * 3600.0)
    >>> round(used.instance_hours, 3), used.known_s / 3600, round(used.mean_instances, 3)
    (10.0, 3.0, 3.333)
    """

    def __init__(self, operators: Sequence[str]) -> None:
        self._hours = SpendingKeeper(dict.fromkeys(operators, 1.0))

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is None:
            return
        self._hours.observe(observation)

    def used(self, now: Instant) -> Used:
        hours, known_s = self._hours.spent(DAY_S, now)
        return Used(hours, known_s)


ENGINE = "agents"
MISSED_REPORTS = 3
"""An agent that missed this many reports is lost."""


def _ignore(entry: Decision | Event) -> None:
    return None


def mailbox_of(spec: JobSpec, clock: Clock, sizes: Mapping[str, int] | None = None, term: int = 0) -> AgentsEngine:
    """Make the mailbox where the agents of a job report and read their sizes; ``sizes`` are the last known ones."""
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


class ServedJob:
    """A job with its loop, stepped by the scheduler; safe to use from any thread.

    - ``engine``: the mailbox of its agents; made if none is given
    - ``wrap_engine``: returns the engine that the loop observes, given the mailbox
    - ``extra_state``: returns additional entries of the job's state in the API
    - ``guards``: come after all others, such as those of a group's quotas
    - ``wired``: called with its loop, and with each loop that replaces it
    - ``on_entry``: called with decisions and events
    - ``term``: the term of the leading service, if several share the journal; then no decision is carried out that
      could not be journalled
    - ``changes``: changes in force from earlier runs
    - ``past``: returns the past of the job if it need not be read from the journal
    """

    def __init__(  # noqa: PLR0913 - one keyword per part of a job
        self,
        spec: JobSpec,
        journal: Journal,
        clock: Clock,
        *,
        engine: AgentsEngine | None = None,
        wrap_engine: Callable[[AgentsEngine], Engine] = lambda engine: engine,
        extra_state: Callable[[], Mapping[str, JSON]] = dict,
        guards: Sequence[Guard] = (),
        wired: Callable[[ControlLoop], None] = lambda loop: None,
        on_entry: EntryListener = _ignore,
        term: int | None = None,
        changes: Sequence[JobChange] = (),
        past: Callable[[JobSpec], Past | None] = lambda spec: None,
    ) -> None:
        self.requested = spec
        """The specification in the file; ``spec`` is the one in force."""
        self.changes = tuple(changes)
        """The changes in force."""
        self.spec = changed(spec, changes)
        self.steering = Steering()
        self.steering.take(changes)
        self.clock = clock
        self.journal = PublishedJournal(journal, on_entry)
        known = past(self.spec)
        self.began_with = journal.last_sizes(spec.name) if known is None else known.sizes
        """The sizes that it had before."""
        self.engine = engine or mailbox_of(self.spec, clock, self.began_with, term or 0)
        self._is_shared = term is not None
        self._observed_engine = wrap_engine(self.engine)
        self.extra_state = extra_state
        self._guards = tuple(guards)
        self._on_wired = wired
        self._limits = {operator: ReportLimits(clock.now) for operator in self.operators}
        self._lock = threading.RLock()
        self._closed = False
        self.ticks = 0
        self.ticked_s: float | None = None
        """When it was last stepped."""
        self.observation: Observation | None = None
        """The last observation; an operator without a new reading keeps its last one."""
        self.decision: Decision | None = None
        self.day = Day(self.operators)
        """Its use of instances in the last day."""
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
        assembled = open_loop(spec, self._observed_engine, self.clock, engine_name=ENGINE, past=past)
        loop = assembled.loop
        loop.shared_guards += self._guards
        if not isinstance(self._observed_engine, ReportsEvents):
            loop.chores.append(self._note_agents)
        loop.chores.append(self._end_changes)
        loop.watchers.append(self._watch)
        self._on_wired(loop)
        return assembled

    # ---------------------------------------------------------------------------------------------- for the scheduler

    def tick(self) -> Decision | None:
        """Run one cycle of its loop; do nothing once it is closed."""
        with self._lock:
            if self._closed:
                return None
            self.ticks += 1
            self.ticked_s = self.clock.now()
            return self.loop.tick()

    def begin(self, term: int | None = None) -> None:
        """Journal that this service controls the job from now on; ``term`` is given if another one did before."""
        only = ", recommending only" if self.loop.mode is Mode.RECOMMEND else ""
        how = f"policy {self.spec.policy}, every {self.spec.interval_s:g} s{only}"
        if term is None:
            self.loop.note("started", how)
        else:
            # One entry, not two, because a thousand jobs may be waiting to be taken on.
            self.loop.note("leader-changed", f"another service controls {self.name}, in term {term}: {how}")

    def observe(self) -> None:
        """Read the reports of the agents, without deciding on them or learning from them."""
        with self._lock:
            self.ticks += 1
            self._watch(self._observed_engine.observe(), None)

    def _note_agents(self) -> None:
        for event in self.engine.take_events():
            self.loop.note(event.kind, event.detail, at_s=event.at_s, severity=event.severity)

    def _watch(self, observation: Observation | None, decision: Decision | None) -> None:
        before = self.observation
        if observation is not None and before is not None:
            observation = replace(observation, samples={**before.samples, **observation.samples})
        self.observation, self.decision = observation or before, decision or self.decision
        self.day(observation, decision)

    # ------------------------------------------------------------------------------------------------------- changes

    def steer(self, changes: Sequence[JobChange], text: str) -> None:
        """Put these changes in force from the next decision on, in place of earlier ones; ``text`` is for the journal.

        A change that cannot be used is an ``InputError``, and nothing changes.
        """
        self._reconfigure(self.requested, changes, text)

    def respecify(self, spec: JobSpec, text: str) -> None:
        """Continue with another specification from the file, which has the same operators."""
        self._reconfigure(spec, self.changes, text)

    def _reconfigure(self, requested: JobSpec, changes: Sequence[JobChange], text: str) -> None:
        with self._lock:
            before, wanted = (self.requested, self.changes, self.spec), changed(requested, changes)
            require_usable(wanted)
            try:
                self._put_in_force(requested, changes, wanted, text)
            except BaseException as error:
                self.requested, self.changes, self.spec = before
                self.steering.take(self.changes)
                self.engine.size_by(self.spec.topology)
                self.loop.note("change-failed", f"it is taken back: {error}", severity=Severity.ERROR)
                raise

    def _put_in_force(self, requested: JobSpec, changes: Sequence[JobChange], wanted: JobSpec, text: str) -> None:
        before = self.spec
        self.requested, self.changes, self.spec = requested, tuple(changes), wanted
        self.steering.take(changes)
        self.loop.note("changed", text)
        if _needs_new_loop(before, wanted):
            # Budgets, bounds and shadows belong to a loop; the new one reads the rest from the journal.
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
            # Agents that still follow the last decision must not work against whatever scales the job now.
            self.engine.want_nothing()

    def _end_changes(self) -> None:
        """End the changes whose time is over."""
        now = self.clock.now()
        over = [change for change in self.changes if not change.holds_at(now)]
        if over:
            named = ", ".join(f"{change.kind} {change.name}".strip() for change in over)
            self.steer([change for change in self.changes if change.holds_at(now)], f"the time of {named} is over")

    # --------------------------------------------------------------------------------------------- agents and readers

    def report(self, operator: str, report: Report) -> Reply:
        """Record the report of an agent, and return the desired state of its operator."""
        return self.engine.report(operator, self._limits[operator].admitted(report))

    @contextmanager
    def at_rest(self) -> Iterator[ControlLoop]:
        """Give its loop between two steps, so that what is read inside the block is consistent."""
        with self._lock:
            yield self.loop

    def require_operator(self, name: str) -> None:
        if name not in self.operators:
            raise UnknownNameError("operator", name, self.operators)

    def abandon(self) -> None:
        """Release it without journalling anything, because this service no longer leads. Calling it twice is fine."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.engine.close()
                self.journal.close()

    def close(self, why: str = "the service ends") -> None:
        """Save what was learned and release the agents, whose jobs stay at their sizes. Calling it twice is fine."""
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
