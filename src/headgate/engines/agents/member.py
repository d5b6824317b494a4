"""One operator as its agent tells of it: what was reported and not looked at yet, and what is wanted of it."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.types import Answer, Batch, Event, Instances, Instant, Sample, Startup
from headgate.engines.agents.wire import Report

COUNTERS = ("arrived", "given", "done", "emitted", "late", "busy_s", "available_s", "paused_s")
_A_MOMENT_S = 1e-6


class Member:
    """Follows the agents of one operator, one after the other: a driver that was started again has a new one."""

    def __init__(self, operator: str, starts: int) -> None:
        self.operator = operator
        self._starts = starts
        self.agent: str | None = None
        self.former: set[str] = set()
        """Agents that another has taken the place of."""
        self.heard_s: Instant | None = None
        self.wanted: int | None = None
        """The size that was decided; ``None`` before anybody did."""
        self._told: int | None = None
        self._answer: Answer | None = None
        """What became of the size that the agent was told last."""
        self.further_metrics: tuple[str, ...] = ()
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
        is_of_it = self._told is not None and self._told == self.wanted
        return self._answer if is_of_it and self._answer is not None and not self._answer.outcome.is_taken else None

    def instances(self, *, stale: bool) -> Instances:
        planned, known = self.planned, self._instances
        return Instances(planned, planned, 0 if known is None else known.ready, stale=stale)

    def take(self, report: Report, now: Instant) -> None:
        """Take in a report that came now; the first of another agent takes the place of the one before."""
        if report.agent != self.agent:
            self._begin(report.agent)
        self.heard_s, self._instances = now, report.instances
        self._told, self._answer = report.told, report.answer
        self.further_metrics = report.further_metrics
        startups = report.startups[max(0, self._startups_seen - report.first_startup) :]
        self._startups_seen = max(self._startups_seen, report.first_startup + len(report.startups))
        self._startups.extend(startups)
        self._events.extend(report.events[max(0, self._events_seen - report.first_event) :])
        self._events_seen = max(self._events_seen, report.first_event + len(report.events))
        if report.sample is not None:
            self._take_reading(report.sample, report.first_batch)

    def _begin(self, agent: str) -> None:
        if self.agent is not None:
            self.former.add(self.agent)
        self.agent = agent
        self._batches_seen = self._startups_seen = self._events_seen = 0
        if self._reading is not None:
            # What had arrived and was not done is counted again by the new one, which begins where results end.
            known = {name: value for name in COUNTERS if (value := getattr(self._reading, name)) is not None}
            self._before = known | ({"arrived": known["done"]} if "done" in known else {})

    def _take_reading(self, sample: Sample, first_batch: int) -> None:
        self._batches.extend(sample.batches[max(0, self._batches_seen - first_batch) :])
        self._batches_seen = max(self._batches_seen, first_batch + len(sample.batches))
        before = self._reading
        counted = {}
        for name in COUNTERS:
            value: float | None = getattr(sample, name)
            if value is not None:
                reached = 0.0 if before is None else getattr(before, name) or 0.0
                counted[name] = max(reached, self._before.get(name, 0.0) + value)
        # A message that was slower on its way than the one before it must not be older than that.
        at_s = sample.at_s if before is None else max(sample.at_s, before.at_s + _A_MOMENT_S)
        self._reading = replace(sample, operator=self.operator, at_s=at_s, batches=(), **counted)  # type: ignore[arg-type]  # all of these are numbers

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
        return [replace(one, detail=f"{self.operator}: {one.detail}") for one in found]
