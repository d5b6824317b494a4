"""The service itself: its jobs, what steps them, what it keeps, and who listens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.errors import InputError, JournalError, NotLeadingError, UnknownNameError
from headgate.core.types import Decision, Event
from headgate.journal.codec import decision_to_dict, event_to_dict
from headgate.runtime.clock import Clock, SystemClock
from headgate.runtime.loop import ControlLoop
from headgate.runtime.past import Past
from headgate.service.changed import changed, require_usable
from headgate.service.config.model import AccessRules, JobSpec, ServiceConfig
from headgate.service.hub import Hub
from headgate.service.jobs import Job
from headgate.service.lease import fence
from headgate.service.metrics import ServiceFigures
from headgate.service.operations import Operations
from headgate.service.quotas import JobQuota, SharedArbiter, limits_of
from headgate.service.scheduler import Scheduler, next_step_s
from headgate.service.store import Store
from headgate.service.store.changes import Change
from headgate.service.warm import WarmJobs


class Fleet:
    """Safe to use from any thread. Of a job that is not there ``is_coming`` says whether it will be."""

    def __init__(self, is_coming: Callable[[str], bool] = lambda name: False) -> None:
        self._is_coming = is_coming
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs = {**self._jobs, job.name: job}

    def remove(self, name: str) -> Job | None:
        with self._lock:
            removed = self._jobs.get(name)
            self._jobs = {known: job for known, job in self._jobs.items() if known != name}
            return removed

    def job(self, name: str) -> Job:
        """A job by its name; without it an ``UnknownNameError``, or a ``NotLeadingError`` if it will be there."""
        found = self._jobs.get(name)
        if found is None and self._is_coming(name):
            raise NotLeadingError(f"job {name!r} is being taken over from another service; ask again in a moment.")
        if found is None:
            raise UnknownNameError("job", name, self._jobs)
        return found


if TYPE_CHECKING:
    from headgate.service.standby import Standby

logger = logging.getLogger("headgate")

AT_ONCE = 50
"""Jobs whose learned state is read at once when they are taken over."""


class Service:
    """Looks after jobs while it is entered; without ``run`` nobody steps them but the caller.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.service.config import OperatorSpec
    >>> from headgate.service.store import open_store
    >>> spec = JobSpec("clicks", (OperatorSpec("count"),), parse_objective("latency p95 < 10s"))
    >>> with Service(ServiceConfig((spec,)), open_store("sqlite://")) as service:
    ...     service.fleet.job("clicks").tick().verdicts["count"].code
    'no-data'
    """

    def __init__(self, config: ServiceConfig, store: Store, clock: Clock | None = None, *, leads: bool = True) -> None:
        self.config = config
        self.config_problem = ""
        """What is wrong with the newest form of its file, where the one before is still in force."""
        self.store = store
        self.clock = clock or SystemClock()
        self.hub = Hub()
        self.fleet = Fleet(lambda name: self.is_between and any(job.name == name for job in self.config.jobs))
        self.standby: Standby | None = None
        """Says who leads, where several services share a store."""
        self.scheduler = Scheduler(self.clock, lambda: self.leads)
        self.arbiter = SharedArbiter(limits_of(config))
        self.figures = ServiceFigures(self)
        self.scheduler.ticked.append(self.figures.ticked)
        self.operations = Operations(self)
        self.started_s = self.clock.now()
        self._term: int | None = None
        self._warm = WarmJobs(store, self.clock.now)
        if leads:
            for spec in config.jobs:
                self.take_on(self.made(spec, store.changes.of(spec.name)))

    @property
    def leads(self) -> bool:
        """Whether it may decide, and answer agents."""
        return self.standby is None or self.standby.leads

    @property
    def is_between(self) -> bool:
        """Whether it has the lease and can't act for all jobs: some are being taken on, or it could not be renewed."""
        return self.standby is not None and self.standby.token is not None and not self.standby.is_complete

    @property
    def leader_url(self) -> str:
        """Where the service is that leads in place of this one; empty where it leads, or nobody knows."""
        return "" if self.standby is None else self.standby.leader_url

    @property
    def standing_by(self) -> str:
        """Why it does not lead, for anybody; empty where it does."""
        if self.leads or self.standby is None:
            return ""
        if self.standby.problem:
            return "cannot tell who leads: its store cannot be reached"
        return (
            f"stands by; {self.leader_url} leads" if self.leader_url else "stands by; another one leads, or soon will"
        )

    def lead(self, token: int, may_continue: Callable[[], bool]) -> None:
        """Take on all jobs from what the journal knows, in a term that everything is written under."""
        self.store.fence = fence(token)
        self._term = token
        self._warm.catch_up()
        changes = self.store.changes.by_job()
        now, followed = self.clock.now(), self.is_warm
        # One after the other, and each is decided on as soon as it is there: those come first whose time does.
        waiting = sorted(self.config.jobs, key=lambda job: next_step_s(job.name, job.interval_s, now))
        while waiting:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            past = partial(self._warm.take, states=self._warm.states(spec.name for spec in some))
            for spec in some:
                if not may_continue():
                    return
                job = self.made(spec, changes.get(spec.name, ()), past)
                self.take_on(job, token)
        self._warm.forget()
        how = "followed before" if followed else "read from the journal, as far as they had not been followed yet"
        logger.info("%d jobs were taken on in %.1f s, %s", len(self.fleet), self.clock.now() - now, how)

    def stand_by(self) -> None:
        """Follow what the leader does, to go on with it at once when that is gone."""
        if not self._warm.is_due:
            return
        changes = self.store.changes.by_job()
        self._warm.look([self._changed(spec, changes.get(spec.name, ())) for spec in self.config.jobs])

    def _changed(self, spec: JobSpec, changes: Sequence[Change]) -> JobSpec:
        return changed(spec, self._usable(spec, changes)) if changes else spec

    @property
    def is_warm(self) -> bool:
        """Whether it could take on all jobs at once."""
        return self._warm.is_warm

    def step_down(self) -> None:
        """Let go of all jobs and write nothing more: another leads."""
        for job in self.fleet:
            self.scheduler.remove(job.name)
            self.fleet.remove(job.name)
            self.arbiter.forget(job.name)
            self.figures.forget(job.name)
            job.abandon()
        self._warm.forget()
        # The fence stays: what is still under way from when it led is refused.
        self._term = None

    @property
    def access(self) -> AccessRules:
        return self.config.access

    def made(
        self,
        spec: JobSpec,
        requested: Sequence[Change] = (),
        past: Callable[[JobSpec], Past | None] = lambda spec: None,
    ) -> Job:
        """A job of this service with what was asked for since; ``past`` gives what is known of it already."""

        def on_entry(entry: Decision | Event) -> None:
            self.tell(spec.name, entry)

        changes = self._usable(spec, requested)
        quota = JobQuota(self.arbiter, lambda: self.fleet.job(spec.name).spec, lambda: not self.is_between)
        figures = self.figures.of_job(spec.name)

        def wired(loop: ControlLoop) -> None:
            quota.attach(loop)
            figures.attach(loop)

        journal = self.store.journal_of(spec.name)
        return Job(
            spec,
            journal,
            self.clock,
            guards=(quota,),
            wired=wired,
            on_entry=on_entry,
            changes=changes,
            term=self._term,
            past=past,
        )

    @staticmethod
    def _usable(spec: JobSpec, changes: Sequence[Change]) -> tuple[Change, ...]:
        """The changes that still fit a job: its file may have been written anew since."""
        usable: tuple[Change, ...] = ()
        for change in changes:
            try:
                require_usable(changed(spec, (*usable, change)))
            except InputError as error:
                logger.warning("a change of %s to job %s no longer fits: %s", change.kind, spec.name, error)
                continue
            usable = (*usable, change)
        return usable

    def take_on(self, job: Job, term: int | None = None) -> None:
        """Look after a job from now on; in a term in which another service has done so before."""
        self.fleet.add(job)
        self.arbiter.expect(job)
        job.begin(term)
        self.scheduler.add(job)

    def let_go(self, name: str, why: str) -> None:
        """Look after a job no longer; it keeps its size."""
        self.scheduler.remove(name)
        self.arbiter.forget(name)
        self.figures.forget(name)
        if (job := self.fleet.remove(name)) is not None:
            job.close(why)

    def tell(self, job: str, entry: Decision | Event) -> None:
        """Pass on what was decided, or happened."""
        if isinstance(entry, Decision):
            self.hub.publish(entry.at_s, "decision", job, decision_to_dict(entry))
        else:
            self.hub.publish(entry.at_s, "event", job, event_to_dict(entry))

    def store_problem(self) -> str:
        """Why its store cannot be used; empty where it can."""
        try:
            self.store.tokens.all()
        except JournalError as error:
            return str(error)
        return ""

    def run(self) -> None:
        """Step all jobs, each at its time, on a thread; where several share a store, while this one leads."""
        if self.standby is not None:
            self.standby.start()
        self.scheduler.start()

    def close(self) -> None:
        """Let go of all jobs, which keep their sizes. Twice is fine."""
        self.scheduler.stop()
        self.hub.close()
        for job in self.fleet:
            job.close()
        if self.standby is not None:
            self.standby.stop()
        self._warm.forget()
        self.store.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
