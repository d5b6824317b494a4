"""Jobs in other processes as one engine: a mailbox between the loop and the agents of the jobs.

``observe`` gives what agents reported last, with its age on the loop's clock; ``apply`` leaves the sizes for their next
call. An agent that does not report leaves its operator's size stale; its decided size waits until it is back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from headgate.core.errors import ControllerAwayError, EngineError, InputError, SupersededError, UnknownNameError
from headgate.core.metrics import METRICS
from headgate.core.topology import Topology
from headgate.core.types import (
    COUNTERS,
    Answer,
    Batch,
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Sample,
    Severity,
    Startup,
    Verdict,
)
from headgate.core.units import format_duration
from headgate.engines.agents.wire import Reply, Report

T = TypeVar("T")
_A_MOMENT_S = 1e-6
_RENUMBERED = 1000
"""Things that end this far before those received are numbered anew: no message is delayed by so many."""


MOST_FORMER = 100
"""Former agents of an operator that are remembered."""


class AgentState:
    """What is known of one operator's agents, the newest of which counts: a restarted driver has a new agent."""

    def __init__(self, operator: str, starts: int) -> None:
        self.operator = operator
        self._starts = starts
        self.agent: str | None = None
        self.former: deque[str] = deque(maxlen=MOST_FORMER)
        """Agents that another has taken the place of, the newest of them."""
        self.is_released = False
        """Whether another agent may take the place of this one although it reports."""
        self.last_report_s: Instant | None = None
        self.wanted: int | None = None
        """The size that was decided; ``None`` before anybody did."""
        self._sent_size: int | None = None
        self._answer: Answer | None = None
        """The result of the size that the agent received last."""
        self.extra_metrics: tuple[str, ...] = ()
        self._instances: Instances | None = None
        self._reading: Sample | None = None
        """The newest reading."""
        self._given_s: Instant | None = None
        """The time of the reading that was given last."""
        self._batches: list[Batch] = []
        self._batches_seen = 0
        self._startups: list[Startup] = []
        self._startups_seen = 0
        self._events: list[Event] = []
        self._events_seen = 0
        self._before: dict[str, float] = {}
        """What each counter had come to in the lives of former agents."""

    @property
    def planned(self) -> int:
        """The size that is wanted; before anybody decided, the one that the agent plans with."""
        if self.wanted is not None:
            return self.wanted
        return self._starts if self._instances is None else self._instances.planned

    @property
    def refusal(self) -> Answer | None:
        """Why the agent could not do what is wanted; ``None`` where it could, or has not said."""
        is_of_it = self._sent_size is not None and self._sent_size == self.wanted
        return self._answer if is_of_it and self._answer is not None and not self._answer.outcome.is_taken else None

    def instances(self, *, stale: bool) -> Instances:
        planned, known = self.planned, self._instances
        return Instances(planned, planned, 0 if known is None else known.ready, stale=stale)

    def take(self, report: Report, now: Instant) -> None:
        """Take in a report that came now; the first of another agent takes the place of the one before."""
        if report.agent != self.agent:
            self._begin(report.agent)
        self.last_report_s, self._instances = now, report.instances
        self._sent_size, self._answer = report.last_size, report.answer
        self.extra_metrics = report.extra_metrics
        startups, self._startups_seen = _not_seen(report.startups, report.first_startup, self._startups_seen)
        self._startups.extend(startups)
        events, self._events_seen = _not_seen(report.events, report.first_event, self._events_seen)
        self._events.extend(events)
        if report.sample is not None:
            self._take_reading(report.sample, report.first_batch, now)

    def _begin(self, agent: str) -> None:
        if self.agent is not None:
            self.former.append(self.agent)
        self.agent, self.is_released = agent, False
        self._batches_seen = self._startups_seen = self._events_seen = 0
        if self._reading is not None:
            # What had arrived and was not done is counted again by the new one, which begins where results end.
            known = {name: value for name in COUNTERS if (value := getattr(self._reading, name)) is not None}
            self._before = known | ({"arrived": known["done"]} if "done" in known else {})

    def _take_reading(self, sample: Sample, first_batch: int, now: Instant) -> None:
        batches, self._batches_seen = _not_seen(sample.batches, first_batch, self._batches_seen)
        self._batches.extend(batches)
        before, at_s = self._reading, sample.at_s
        counted = {
            name: self._before.get(name, 0.0) + value
            for name in COUNTERS
            if (value := getattr(sample, name)) is not None
        }
        if before is not None and at_s <= before.at_s <= now:
            # A message that was slower on its way than the one before it must not be older than that.
            at_s = before.at_s + _A_MOMENT_S
        self._reading = replace(sample, operator=self.operator, at_s=at_s, batches=(), **counted)

    def take_sample(self) -> Sample | None:
        """The newest reading with all batches since the last one that was given; ``None`` if there is no newer one."""
        reading = self._reading
        if reading is None or reading.at_s == self._given_s:
            return None
        self._given_s = reading.at_s
        batches, self._batches = tuple(self._batches), []
        return replace(reading, batches=batches)

    def take_startups(self) -> tuple[Startup, ...]:
        found, self._startups = tuple(self._startups), []
        return found

    def take_events(self) -> list[Event]:
        """What happened to the job, with its name."""
        found, self._events = self._events, []
        return [replace(event, detail=f"{self.operator}: {event.detail}") for event in found]


def _not_seen(items: tuple[T, ...], first: int, seen: int) -> tuple[tuple[T, ...], int]:
    """Return the items that come after so many that were received, and how many that are now."""
    until = first + len(items)
    if until < seen - _RENUMBERED:
        return items, until
    return items[max(0, seen - first) :], max(seen, until)


LOST_AFTER_S = 10.0
"""An agent that has not reported for this long is lost."""
PER_INSTANCE_METRICS = frozenset(name for name, metric in METRICS.items() if metric.per_instance)


class AgentsEngine:
    """The engine of all operators of a topology, one agent for each.

    - ``starts``: the size that each operator starts with, assumed until its agent reports one
    - ``report_every_s``: how often agents report
    - ``extra_metrics``: what can be subscribed to until agents report what they can measure
    - ``term``: sent to agents, which ignore a controller with a lower term than the highest they have received
    """

    def __init__(
        self,
        topology: Topology,
        *,
        starts: Mapping[str, int] | None = None,
        now: Callable[[], Instant] = time.time,
        report_every_s: float = 1.0,
        lost_after_s: float = LOST_AFTER_S,
        extra_metrics: Collection[str] = PER_INSTANCE_METRICS,
        term: int = 0,
    ) -> None:
        self._topology = topology
        self._now = now
        self._report_every_s = report_every_s
        self._lost_after_s = lost_after_s
        self._extra_metrics = frozenset(extra_metrics)
        self._term = term
        self._members = {name: AgentState(name, (starts or {}).get(name, 1)) for name in topology.operators}
        self._subscriptions: tuple[str, ...] = ()
        self._events: list[Event] = []
        self._lost: set[str] = set()
        self._lock = threading.RLock()
        self._closed = False

    # ------------------------------------------------------------------------------------------------- for the loop

    def topology(self) -> Topology:
        return self._topology

    @property
    def extra_metrics(self) -> Collection[str]:
        """What can be subscribed to."""
        with self._lock:
            return self._extra_metrics.union(*(member.extra_metrics for member in self._members.values()))

    def subscribe(self, keys: Collection[str]) -> None:
        """Have agents report these beyond the basic metrics, and no others."""
        with self._lock:
            self._subscriptions = tuple(sorted(keys))

    @property
    def joined(self) -> frozenset[str]:
        """The operators whose agents report."""
        with self._lock:
            now = self._now()
            return frozenset(name for name, member in self._members.items() if not self._is_silent(member, now))

    @property
    def last_reports_s(self) -> dict[str, Instant | None]:
        """When each operator's agent reported last; ``None`` before its first report."""
        with self._lock:
            return {name: member.last_report_s for name, member in self._members.items()}

    def observe(self) -> Observation:
        with self._lock:
            self._refuse_if_closed()
            now = self._now()
            self._notice_lost(now)
            samples = {
                name: sample for name, member in self._members.items() if (sample := member.take_sample()) is not None
            }
            instances = {
                name: member.instances(stale=self._is_silent(member, now)) for name, member in self._members.items()
            }
            startups = {name: found for name, member in self._members.items() if (found := member.take_startups())}
            return Observation(now, samples, instances, startups)

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._refuse_if_closed()
            now = self._now()
            for name, verdict in decision.verdicts.items():
                if why := self._why_impossible(name, verdict):
                    return Receipt(now, {name: Answer(Outcome.REFUSED, 0, why)})
            return Receipt(now, {name: self._leave(name, verdict) for name, verdict in decision.verdicts.items()})

    def size_by(self, topology: Topology) -> None:
        """Allow other sizes from now on; the operators must be the same."""
        with self._lock:
            if topology.operators != self._topology.operators:
                named = ", ".join(topology.operators)
                raise InputError(f"operators {named} are not those of this engine: {', '.join(self._members)}.")
            self._topology = topology

    def release(self, operator: str) -> None:
        """Let another agent take the place of an operator's present one."""
        with self._lock:
            if operator not in self._members:
                raise UnknownNameError("operator", operator, self._members)
            self._members[operator].is_released = True
            self._note(self._now(), "agent-released", f"another agent may take the place of that of {operator}")

    def want_nothing(self) -> None:
        """Withdraw all decided sizes: every job stays at the size that it has."""
        with self._lock:
            for member in self._members.values():
                member.wanted = None

    def close(self) -> None:
        """Release the jobs, which keep their sizes; agents then get an error. Calling it twice is fine."""
        with self._lock:
            self._closed = True

    def take_events(self) -> list[Event]:
        """Return the joins, returns and losses of agents since the last call, and the events that agents reported."""
        with self._lock:
            events, self._events = self._events, []
            reported = [event for member in self._members.values() for event in member.take_events()]
            return sorted([*events, *reported], key=lambda event: event.at_s)

    # ------------------------------------------------------------------------------------------------- for agents

    def report(self, operator: str, report: Report) -> Reply:
        """Take in a report of an agent and return the decided size."""
        with self._lock:
            self._refuse_if_closed()
            if operator not in self._members:
                raise UnknownNameError("operator", operator, self._members)
            member, now = self._members[operator], self._now()
            if report.agent in member.former:
                raise SupersededError(f"another agent has joined as {operator!r} since; this one is no longer used.")
            self._refuse_second(operator, member, report, now)
            self._notice_join(operator, member, report, now)
            self._notice_own(operator, member, report, now)
            member.take(report, now)
            if report.leaving:
                self._notice_leave(operator, member, now)
            return Reply(member.wanted, self._subscriptions, self._report_every_s, self._term)

    # ---------------------------------------------------------------------------------------------------- inside

    def _why_impossible(self, name: str, verdict: Verdict) -> str:
        if name not in self._members:
            return f"operator {name!r} is not known; operators: {', '.join(self._members)}."
        most = self._topology.sizing_of(name).max_instances
        if verdict.target < 0 or (most is not None and verdict.target > most):
            allowed = "at least 0" if most is None else f"0 to {most}"
            return f"{verdict.target} instances of {name!r} are not possible; {allowed} are."
        return ""

    def _leave(self, name: str, verdict: Verdict) -> Answer:
        """Store the decided size for an operator's agent."""
        member, target = self._members[name], verdict.target
        if target == member.wanted and (refusal := member.refusal) is not None:
            # The agent could not do it: the plan is what it has, until somebody decides again.
            member.wanted = None
            return Answer(refusal.outcome, member.planned, refusal.detail)
        # A hold is no decision to resize: an agent that has not reported its size yet, or reported it while the
        # decision was made, must not be brought to the size that was assumed.
        if target == member.planned or (verdict.change == 0 and member.wanted is None):
            return Answer(Outcome.UNCHANGED, member.planned)
        member.wanted = target
        return Answer(Outcome.DELIVERED, target)

    def _is_silent(self, member: AgentState, now: Instant) -> bool:
        return member.last_report_s is None or now - member.last_report_s > self._lost_after_s

    def _notice_join(self, operator: str, member: AgentState, report: Report, now: Instant) -> None:
        size = report.instances.planned
        if member.agent is None:
            self._note(now, "agent-joined", f"{operator} joined at size {size}")
        elif report.agent != member.agent:
            self._note(now, "agent-joined", f"{operator} was started again and joined at size {size}")
        elif member.last_report_s is None:
            self._note(now, "agent-joined", f"{operator} joined again at size {size}")
        elif operator in self._lost:
            self._note(now, "agent-back", f"{operator} reports again, at size {size}")
        self._lost.discard(operator)

    def _notice_own(self, operator: str, member: AgentState, report: Report, now: Instant) -> None:
        if report.own is None:
            return
        # What was decided before it was cut off is out of date: the plan is what it has, until somebody decides again.
        member.wanted = None
        self._note(now, "agent-decided", f"{operator} chose size {report.own} itself while nobody answered it")

    def _notice_leave(self, operator: str, member: AgentState, now: Instant) -> None:
        self._note(now, "agent-left", f"{operator} left at size {member.planned}, which it keeps")
        member.last_report_s = None
        self._lost.discard(operator)

    def _notice_lost(self, now: Instant) -> None:
        for name, member in self._members.items():
            if member.last_report_s is not None and name not in self._lost and self._is_silent(member, now):
                self._lost.add(name)
                silent = format_duration(round(now - member.last_report_s))
                detail = f"{name} has not reported for {silent}; its size is left unchanged"
                self._note(now, "agent-lost", detail, Severity.WARNING)

    def _note(self, now: Instant, kind: str, detail: str, severity: Severity = Severity.INFO) -> None:
        self._events.append(Event(now, kind, detail, severity=severity))

    def _refuse_second(self, operator: str, member: AgentState, report: Report, now: Instant) -> None:
        """Refuse another agent while the present one reports: it may be a mistake, and would end the present one."""
        if member.agent in (None, report.agent, report.replaces) or self._is_silent(member, now) or member.is_released:
            return
        silent = format_duration(self._lost_after_s)
        raise ControllerAwayError(
            f"another agent reports for {operator!r}; this one may join when that has left, has been silent for "
            f"{silent}, or was released."
        )

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EngineError("the controller of these agents is closed.")
