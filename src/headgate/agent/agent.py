"""An agent: reports the readings of one job to its controller, and brings the job to the size it is told.

What is wanted comes in the answer, as desired state. An agent that loses its controller keeps the job at the size it
has, or lets a policy of its own decide if it was given one; it goes on asking, and is in again with the first answer.
What it could not tell meanwhile it tells then: batches, start-ups and events are numbered, so that none is lost with a
message, or counted twice.
"""

from __future__ import annotations

import logging
import math
import uuid
from dataclasses import replace
from typing import Protocol

from headgate.agent.fallback import Fallback
from headgate.agent.outbox import Outbox
from headgate.core.contracts import Engine, Subscribable
from headgate.core.errors import ControllerAwayError, EngineError, EngineGoneError, HeadgateError, NotLeadingError
from headgate.core.types import Answer, Batch, Decision, Event, Instant, Observation, Outcome, Startup, Verdict
from headgate.engines.agents.wire import Reply, Report

logger = logging.getLogger("headgate")

LONGEST_WAIT_S = 10.0
"""How long an agent waits at most before it asks a controller that is away again."""


class Controller(Protocol):
    """Whom an agent reports to."""

    def report(self, operator: str, report: Report) -> Reply:
        """Deliver a report; ``ControllerAwayError`` where nobody answers."""
        ...


class Agent:
    """Reports for one operator, whose engine has no other."""

    def __init__(self, engine: Engine, operator: str, controller: Controller, fallback: Fallback | None = None) -> None:
        self._engine = engine
        self._operator = operator
        (self._inner,) = engine.topology().operators
        self._controller = controller
        self._id = uuid.uuid4().hex
        self._batches = Outbox[Batch]()
        self._startups = Outbox[Startup]()
        self._events = Outbox[Event]()
        self._reply = Reply()
        self._answer: Answer | None = None
        self._away = 0
        """How often in a row nobody answered."""
        self._away_since_s: Instant | None = None
        self._stands_by = False
        """Whether somebody answered that another will lead: there is no use in asking less often."""
        self._fallback = fallback
        self._own: int | None = None
        """The size that the fallback chose, while it does."""
        self._term = 0
        """The highest that was heard of."""
        self.has_joined = False

    @property
    def is_away(self) -> bool:
        """Whether nobody answered when it reported last."""
        return self._away > 0

    @property
    def wait_s(self) -> float:
        """How long until it reports again: longer the longer nobody answers."""
        if not self._away or self._stands_by:
            return self._reply.report_every_s
        return min(LONGEST_WAIT_S, self._reply.report_every_s * math.pow(2, min(self._away, 10)))

    def note(self, event: Event) -> None:
        """Have something told that happened to the job; from any thread."""
        self._events.add([event])

    def tick(self) -> Observation:
        """Report, and do what the answer says; where none comes, keep to what was said last, or decide itself."""
        observation = self._engine.observe()
        report = self._reported(observation)
        try:
            reply = self._asked(report)
        except ControllerAwayError as error:
            self._keep(error, observation)
        else:
            self._take(reply, report)
            if self._fallback is not None:
                self._fallback.saw(observation)
        self._carry_out(observation.at_s)
        return observation

    def leave(self) -> None:
        """Tell that this agent ends, as well as it can be told; the job keeps its size."""
        try:
            self._asked(replace(self._reported(self._engine.observe()), leaving=True))
        except HeadgateError as error:
            logger.info("%s could not tell that it leaves: %s", self._operator, error)

    def _asked(self, report: Report) -> Reply:
        reply = self._controller.report(self._operator, report)
        if reply.term < self._term:
            raise ControllerAwayError(f"a service answered that led in term {reply.term}; it is term {self._term}.")
        self._term = reply.term
        return reply

    def _reported(self, observation: Observation) -> Report:
        sample = observation.samples.get(self._inner)
        self._batches.add(() if sample is None else sample.batches)
        self._startups.add(observation.startups.get(self._inner, ()))
        engine = self._engine
        return Report(
            agent=self._id,
            instances=observation.instances[self._inner],
            sample=None if sample is None else replace(sample, batches=self._batches.waiting),
            first_batch=self._batches.first,
            startups=self._startups.waiting,
            first_startup=self._startups.first,
            events=self._events.waiting,
            first_event=self._events.first,
            further_metrics=tuple(sorted(engine.further_metrics)) if isinstance(engine, Subscribable) else (),
            told=self._reply.size,
            answer=self._answer,
            own=self._own,
        )

    def _keep(self, error: ControllerAwayError, observation: Observation) -> None:
        now = observation.at_s
        self._stands_by = isinstance(error, NotLeadingError)
        if self._away_since_s is None:
            logger.warning("%s keeps its size: %s", self._operator, error)
            self._away_since_s = now
        self._away += 1
        if self._fallback is None:
            return
        if now - self._away_since_s < self._fallback.after_s:
            self._fallback.saw(observation)
            return
        if self._own is None:
            logger.warning("%s decides its size itself: nobody has answered for a while", self._operator)
        self._own = self._fallback.decide(observation)

    def _take(self, reply: Reply, report: Report) -> None:
        if self._away:
            logger.warning("%s is in again: its controller answers", self._operator)
        self.has_joined = True
        self._away, self._away_since_s, self._own = 0, None, None
        if report.sample is not None:
            self._batches.arrived(report.first_batch + len(report.sample.batches))
        self._startups.arrived(report.first_startup + len(report.startups))
        self._events.arrived(report.first_event + len(report.events))
        if reply.subscriptions != self._reply.subscriptions:
            if self._fallback is not None:
                self._fallback.subscribe(reply.subscriptions)
            elif isinstance(self._engine, Subscribable):
                self._engine.subscribe(reply.subscriptions)
        self._reply = reply

    def _carry_out(self, now: Instant) -> None:
        """Bring the job to the size wanted. Also when that is no news: the engine repairs what deviates from it."""
        size = self._reply.size
        if size is None or self._own is not None:
            return
        verdict = Verdict(self._inner, size, size, size, "told", "the controller wants it")
        try:
            answer = self._engine.apply(Decision(now, "agent", {self._inner: verdict})).answers[self._inner]
        except EngineGoneError:
            raise
        except EngineError as error:
            answer = Answer(Outcome.FAILED, size, str(error))
        if not answer.outcome.is_taken and answer != self._answer:
            logger.warning("%s cannot have %d instances: %s", self._operator, size, answer.detail)
        self._answer = answer
