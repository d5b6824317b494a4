"""An agent: reports the readings of one job to its controller, and brings the job to the size it receives.

What is wanted comes in the answer, as desired state. An agent that loses its controller keeps the job at the size it
has, or lets a policy of its own decide if it was given one; it goes on asking, and is in again with the first answer.
What it could not tell meanwhile it tells then: batches, start-ups and events are numbered, so that none is lost with a
message, or counted twice.

Its controller is reached over HTTP: one service, or several of which one leads.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

from headgate.agent.fallback import Fallback
from headgate.client.client import trusting
from headgate.core.contracts import Engine, ReportsEvents, Subscribable
from headgate.core.errors import (
    ControllerAwayError,
    EngineError,
    EngineGoneError,
    HeadgateError,
    InputError,
    NotLeadingError,
    SupersededError,
    TokenRefusedError,
    cause_of,
)
from headgate.core.extras import needing
from headgate.core.topology import Topology
from headgate.core.types import Answer, Batch, Decision, Event, Instant, Observation, Outcome, Receipt, Startup, Verdict
from headgate.engines.agents.wire import (
    LEADER_HEADER,
    NOT_LEADING,
    Reply,
    Report,
    Turn,
    reply_from_text,
    report_to_text,
    service_urls,
)

MOST_WAITING = 500
"""The most that are retained while the controller is away; the oldest are dropped first."""
T = TypeVar("T")


class Outbox(Generic[T]):
    """Things of one kind, numbered from 0 on; filled from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[T] = deque()
        self.first = 0
        """How many came before the first that waits."""

    @property
    def waiting(self) -> tuple[T, ...]:
        with self._lock:
            return tuple(self._waiting)

    def add(self, new: Iterable[T]) -> None:
        with self._lock:
            self._waiting.extend(new)
            while len(self._waiting) > MOST_WAITING:
                self._drop()

    def arrived(self, until: int) -> None:
        """All that came before the one of this number have arrived."""
        with self._lock:
            while self._waiting and self.first < until:
                self._drop()

    def _drop(self) -> None:
        self._waiting.popleft()
        self.first += 1


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
        """The highest token received."""
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
        """Report an event of the job; callable from any thread."""
        self._events.add([event])

    def tick(self) -> Observation:
        """Report, and do what the answer says; where none comes, keep to what was said last, or decide itself."""
        observation = self._engine.observe()
        report = self._reported(observation)
        try:
            reply = self._post(report)
        except ControllerAwayError as error:
            self._keep(error, observation)
        else:
            self._take(reply, report)
            if self._fallback is not None:
                self._fallback.saw(observation)
        self._carry_out(observation.at_s)
        return observation

    def leave(self) -> None:
        """Report, if possible, that this agent ends; the job keeps its size."""
        try:
            self._post(replace(self._reported(self._engine.observe()), leaving=True))
        except HeadgateError as error:
            logger.info("%s could not tell that it leaves: %s", self._operator, error)

    def _post(self, report: Report) -> Reply:
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
            extra_metrics=tuple(sorted(engine.extra_metrics)) if isinstance(engine, Subscribable) else (),
            last_size=self._reply.size,
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


class SeveralAgents:
    """Reports for every operator of an engine, under its own name."""

    def __init__(self, engine: Engine, controller: Controller) -> None:
        self._engine = engine
        self._seen = engine.observe()
        self._subscribed: dict[str, frozenset[str]] = {}
        self._wanted: dict[str, int] = {}
        self._answers: dict[str, tuple[int, Answer]] = {}
        """What became of which size."""
        self._agents = [Agent(_OneOperator(self, name), name, controller) for name in engine.topology().operators]

    @property
    def has_joined(self) -> bool:
        return any(agent.has_joined for agent in self._agents)

    @property
    def wait_s(self) -> float:
        return max(agent.wait_s for agent in self._agents)

    def note(self, event: Event) -> None:
        """Report an event of the job once, whichever operator it concerns."""
        self._agents[0].note(event)

    def tick(self) -> Observation:
        """Look once, report for all, and bring all to what the answers say."""
        self._seen = self._engine.observe()
        if isinstance(self._engine, ReportsEvents):
            for event in self._engine.take_events():
                self.note(event)
        self._wanted = {}
        for agent in self._agents:
            agent.tick()
        self._carry_out()
        return self._seen

    def leave(self) -> None:
        """Tell that these agents end; the job keeps its sizes."""
        for agent in self._agents:
            agent.leave()

    def _carry_out(self) -> None:
        if not self._wanted:
            return
        verdicts = {
            name: Verdict(name, size, size, size, "told", "the controller wants it")
            for name, size in self._wanted.items()
        }
        try:
            receipt = self._engine.apply(Decision(self._seen.at_s, "agent", verdicts))
        except EngineGoneError:
            raise
        except EngineError as error:
            answers = {name: Answer(Outcome.FAILED, size, str(error)) for name, size in self._wanted.items()}
        else:
            # What is refused is refused as a whole: then the others did not get theirs either.
            otherwise = Answer(Outcome.REFUSED, 0, receipt.detail)
            answers = {name: receipt.answers.get(name, otherwise) for name in self._wanted}
        self._answers = {name: (self._wanted[name], answer) for name, answer in answers.items()}

    # ----------------------------------------------------------------------------------------------- for one operator

    def seen_of(self, operator: str) -> Observation:
        seen = self._seen
        return Observation(
            seen.at_s,
            {name: part for name, part in seen.samples.items() if name == operator},
            {operator: seen.instances[operator]},
            {name: part for name, part in seen.startups.items() if name == operator},
        )

    def want(self, operator: str, size: int) -> Answer:
        """Have a size with the next change; gives what became of the one before, if that was the same."""
        self._wanted[operator] = size
        size_before, answer = self._answers.get(operator, (None, Answer(Outcome.ACCEPTED, size)))
        return answer if size_before == size else Answer(Outcome.ACCEPTED, size)

    @property
    def extra_metrics(self) -> Collection[str]:
        return self._engine.extra_metrics if isinstance(self._engine, Subscribable) else ()

    def subscribe(self, operator: str, keys: Collection[str]) -> None:
        """Collect what the service asks of any of them."""
        self._subscribed[operator] = frozenset(keys)
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(frozenset[str]().union(*self._subscribed.values()))


class _OneOperator:
    """One of them as an engine of its own, for its agent."""

    def __init__(self, all_: SeveralAgents, operator: str) -> None:
        self._all = all_
        self._operator = operator

    def topology(self) -> Topology:
        return Topology.single(self._operator)

    def observe(self) -> Observation:
        return self._all.seen_of(self._operator)

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(decision.at_s, {name: self._all.want(name, size) for name, size in decision.targets.items()})

    def close(self) -> None:
        """The engine is everybody's."""

    @property
    def extra_metrics(self) -> Collection[str]:
        return self._all.extra_metrics

    def subscribe(self, keys: Collection[str]) -> None:
        self._all.subscribe(self._operator, keys)


ANSWER_WITHIN_S = 2.0
SUPERSEDED = 409
"""The status with which a service answers an agent whose place another one has taken."""
NOT_LET_IN = (401, 403)
"""The token is none of the service's, or one of another scope."""
NOT_FOUND = 404


PROCESS = uuid.uuid4().hex
"""Distinguishes this process from an earlier one that had the same number."""


class LastAgents:
    """The agents of one job that reported from this machine, by operator, in files that only this user can read.

    A driver that was killed and is started again finds the name of its former agent there, and takes its place at once.
    It does not where the former process is alive, which would be ended by that, or was on another machine.
    """

    def __init__(self, job: str) -> None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(base, "headgate", "agents")
        self._job = job

    def former(self, operator: str) -> str | None:
        """Return the name of the operator's last agent if its process is gone."""
        try:
            found = json.loads(self._file(operator).read_text(encoding="utf-8"))
            is_ours = found["version"] == 1 and found["host"] == socket.gethostname() and found["process"] != PROCESS
            return str(found["agent"]) if is_ours and _is_gone(int(found["pid"])) else None
        except (OSError, ValueError, TypeError, LookupError):
            return None  # Without the file it joins when the former agent has been silent for a while.

    def remember(self, operator: str, agent: str) -> None:
        """Store the name of the present agent."""
        own = {"version": 1, "agent": agent, "host": socket.gethostname(), "pid": os.getpid(), "process": PROCESS}
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._file(operator), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(own, file)

    def forget(self, operator: str) -> None:
        """Remove what was stored: the agent has left in order."""
        with suppress(OSError):
            self._file(operator).unlink(missing_ok=True)

    def _file(self, operator: str) -> Path:
        return self._folder / f"{hashlib.sha256(json.dumps([self._job, operator]).encode()).hexdigest()}.json"


def _is_gone(pid: int) -> bool:
    """Whether no process has this number, or only this one; where that cannot be found out, it may be there."""
    if pid == os.getpid():
        return True
    if os.name != "posix" or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class HttpController:
    """Reports for operators of ``job`` to the service at ``service``, such as ``http://127.0.0.1:8420``.

    Of several (a sequence, or one text with commas) the one that leads is found, and found again when it changes: a
    standby names the leader. Only the addresses given here are contacted, because requests carry the token.
    ``token`` is the proof that it may report; ``certificate`` a file with the one to trust, where not everybody does.
    With ``last_agents``, the agent of a driver that was killed and started again takes its place back at once.
    """

    def __init__(
        self,
        service: str | Sequence[str],
        token: str,
        job: str,
        *,
        certificate: str | None = None,
        now: Callable[[], Instant] = time.time,
        last_agents: LastAgents | None = None,
    ) -> None:
        with needing("an agent"):
            import httpx
        self._errors = httpx.HTTPError
        self._urls = service_urls(service)
        self._url = self._urls[0]
        self._operators = f"/v1/jobs/{quote(job, safe='')}/operators"
        self._now = now
        self._last_agents = last_agents
        self._joined: set[str] = set()
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, headers=headers, verify=trusting(certificate))

    def report(self, operator: str, report: Report) -> Reply:
        """Deliver a report to the leader, trying the last known one first and each address once."""
        last_agents = self._last_agents
        if last_agents is None:
            return self._delivered(operator, report)
        if operator not in self._joined:
            report = replace(report, replaces=last_agents.former(operator))
        reply = self._delivered(operator, report)
        if report.leaving:
            last_agents.forget(operator)
        elif operator not in self._joined:
            last_agents.remember(operator, report.agent)
        self._joined.add(operator)
        return reply

    def _delivered(self, operator: str, report: Report) -> Reply:
        turn = Turn(self._urls, self._url)
        problems: list[str] = []
        stands_by = False
        for url in turn:
            try:
                reply = self._ask(url, operator, report)
            except NotLeadingError as error:
                problems.append(str(error))
                stands_by = True
                turn.leads(error.leader)
            except ControllerAwayError as error:
                problems.append(str(error))
            else:
                self._url = url
                return reply
        raise (NotLeadingError if stands_by else ControllerAwayError)(" ".join(problems))

    def _ask(self, url: str, operator: str, report: Report) -> Reply:
        where = f"{url}{self._operators}/{quote(operator, safe='')}/reports"
        try:
            answer = self._client.post(where, content=report_to_text(report, self._now()))
        except self._errors as error:
            raise ControllerAwayError(f"the controller at {url} does not answer: {cause_of(error)}.") from error
        if answer.is_success:
            return reply_from_text(answer.text)
        # A sentence is what a service says; a page is of something else that answers there.
        is_sentence = answer.headers.get("content-type", "").startswith("text/plain")
        problem = answer.text.strip() if is_sentence and answer.text.strip() else f"status {answer.status_code}."
        if answer.status_code == NOT_LEADING:
            raise NotLeadingError(f"the service at {url} stands by.", answer.headers.get(LEADER_HEADER, ""))
        if answer.status_code == SUPERSEDED:
            raise SupersededError(problem)
        if answer.is_server_error:
            raise ControllerAwayError(f"the controller at {url} cannot answer: {problem}")
        refused = f"the controller at {url} refuses {operator!r}: {problem}"
        if answer.status_code in NOT_LET_IN:
            raise TokenRefusedError(f"{refused} One is made by: headgate token make NAME --scope agent")
        if answer.status_code == NOT_FOUND:
            raise InputError(f"{refused} Give a name that it knows, or add this one to the file that it serves.")
        raise InputError(refused)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> HttpController:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
