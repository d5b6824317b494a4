"""The service: its jobs, the scheduler that steps them, its store, and the listeners to its events."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.errors import HeadgateError, InputError, JournalError, NotLeadingError, UnknownNameError
from headgate.core.types import Decision, Event
from headgate.journal.codec import decision_to_dict, event_to_dict
from headgate.runtime.loop import Clock, ControlLoop, SystemClock
from headgate.runtime.past import Past, history_for
from headgate.service.applied_changes import changed, loop_spec, require_usable
from headgate.service.config.model import AccessRules, JobSpec, ServiceConfig
from headgate.service.hub import Hub
from headgate.service.jobs import ServedJob
from headgate.service.lease import fence
from headgate.service.metrics import ServiceFigures
from headgate.service.operations import Operations
from headgate.service.quotas import JobQuota, SharedArbiter, limits_of
from headgate.service.scheduler import Scheduler, next_step_s
from headgate.service.store import Store
from headgate.service.store.changes import JobChange
from headgate.service.warm import WarmJobs

if TYPE_CHECKING:
    from headgate.service.standby import Standby

logger = logging.getLogger("headgate")

STORE_CHECKED_EVERY_S = 1.0
FAILED_AGAIN_S = 60.0
AT_ONCE = 50
"""Jobs whose learned state is read in one query when they are taken over."""


class JobRegistry:
    """The jobs of a service by name; safe to use from any thread. ``is_coming`` says whether a job will be added."""

    def __init__(self, is_coming: Callable[[str], bool] = lambda name: False) -> None:
        self._is_coming = is_coming
        self._lock = threading.Lock()
        self._jobs: dict[str, ServedJob] = {}

    def __iter__(self) -> Iterator[ServedJob]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: ServedJob) -> None:
        with self._lock:
            self._jobs = {**self._jobs, job.name: job}

    def remove(self, name: str) -> ServedJob | None:
        with self._lock:
            removed = self._jobs.get(name)
            self._jobs = {known: job for known, job in self._jobs.items() if known != name}
            return removed

    def job(self, name: str) -> ServedJob:
        """Return a job by its name; raise an ``UnknownNameError``, or a ``NotLeadingError`` if it will be added."""
        found = self._jobs.get(name)
        if found is None and self._is_coming(name):
            raise NotLeadingError(f"job {name!r} is being taken over from another service; ask again in a moment.")
        if found is None:
            raise UnknownNameError("job", name, self._jobs)
        return found


class Service:
    """Controls jobs while it is entered; without ``run``, only the caller steps them.

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
        """What is wrong with the edited file, while the previous configuration stays in force."""
        self.store = store
        self.clock = clock or SystemClock()
        self.hub = Hub()
        self.fleet = JobRegistry(lambda name: self.is_taking_over and any(job.name == name for job in self.config.jobs))
        self.standby: Standby | None = None
        """Tells which service leads, if several share a store."""
        self.scheduler = Scheduler(self.clock, lambda: self.leads)
        self.arbiter = SharedArbiter(limits_of(config))
        self.figures = ServiceFigures(self)
        self.scheduler.ticked.append(self.figures.ticked)
        self.operations = Operations(self)
        self.started_s = self.clock.now()
        self._term: int | None = None
        self._failed: dict[str, float] = {}
        """When jobs could not be taken on."""
        self.scheduler.chores.append(self._retry_failed)
        self._store_problem = ""
        self._store_checked_s = float("-inf")
        self._checking = threading.Lock()
        self._warm = WarmJobs(store, self.clock.now)
        if leads:
            for spec in config.jobs:
                self.take_on_if_possible(spec, store.changes.of(spec.name))

    @property
    def leads(self) -> bool:
        """Whether this service may decide and answer agents."""
        return self.standby is None or self.standby.leads

    @property
    def is_taking_over(self) -> bool:
        """Whether it holds the lease but cannot act for all jobs yet: some are being taken on, or renewal failed."""
        return self.standby is not None and self.standby.token is not None and not self.standby.is_complete

    @property
    def leader_url(self) -> str:
        """The address of the leader; empty if this service leads, or the leader is not known."""
        return "" if self.standby is None else self.standby.leader_url

    @property
    def standing_by(self) -> str:
        """Why it does not lead, as the end of a sentence; empty if it does."""
        if self.leads or self.standby is None:
            return ""
        if self.standby.problem:
            return "cannot determine the leader: its store cannot be reached"
        return (
            f"stands by; {self.leader_url} leads" if self.leader_url else "stands by; another one leads, or soon will"
        )

    def lead(self, token: int, may_continue: Callable[[], bool]) -> None:
        """Take on all jobs from the journal; ``token`` numbers the term, and fences all writes."""
        self.store.fence = fence(token)
        self._term = token
        self._warm.catch_up()
        changes = self.store.changes.by_job()
        now, followed = self.clock.now(), self.is_warm
        # Jobs are taken on in the order in which their next decision is due, and decided on as soon as they are there.
        waiting = sorted(self.config.jobs, key=lambda job: next_step_s(job.name, job.interval_s, now))
        while waiting:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            past = partial(self._warm.take, states=self._warm.states(spec.name for spec in some))
            for spec in some:
                if not may_continue():
                    return
                self.take_on_if_possible(spec, changes.get(spec.name, ()), past)
        self._warm.forget()
        how = "followed before" if followed else "those not followed before were read from the journal"
        logger.info("%d jobs were taken on in %.1f s, %s", len(self.fleet), self.clock.now() - now, how)

    def take_on_if_possible(
        self,
        spec: JobSpec,
        requested: Sequence[JobChange],
        past: Callable[[JobSpec], Past | None] = lambda spec: None,
    ) -> None:
        """Take on a job; a defect that concerns it alone must not keep the others from being controlled."""
        try:
            try:
                job = self.make_job(spec, requested, past)
            except HeadgateError:
                raise
            except Exception:
                logger.exception("job %s cannot continue from what was journalled, and begins anew", spec.name)
                job = self.make_job(spec, requested, self._sizes_alone)
            self.take_on(job, self._term)
        except HeadgateError:
            raise
        except Exception:
            logger.exception("job %s cannot be taken on, and is tried again in %g s", spec.name, FAILED_AGAIN_S)
            self._failed[spec.name] = self.clock.now()

    def _sizes_alone(self, spec: JobSpec) -> Past:
        """Return the past of a job without its readings and what was learned from them."""
        parts = loop_spec(spec).parts(spec.topology)
        with closing(self.store.journal_of(spec.name)) as journal:
            sizes = journal.last_sizes(spec.name)
        return Past(history_for(spec.topology, parts.policy, parts.shadows), sizes, lambda key: None)

    def _retry_failed(self) -> None:
        """Try again to take on the jobs for which that failed."""
        now = self.clock.now()
        for name, failed_s in list(self._failed.items()):
            spec = next((job for job in self.config.jobs if job.name == name), None)
            if spec is None or not self.leads or any(job.name == name for job in self.fleet):
                del self._failed[name]
            elif now - failed_s >= FAILED_AGAIN_S:
                self.take_on_if_possible(spec, self.store.changes.of(name))

    def stand_by(self) -> None:
        """Follow what the leader journals, to be able to take over at once."""
        if not self._warm.is_due:
            return
        changes = self.store.changes.by_job()
        self._warm.follow([self._changed(spec, changes.get(spec.name, ())) for spec in self.config.jobs])

    def _changed(self, spec: JobSpec, changes: Sequence[JobChange]) -> JobSpec:
        return changed(spec, self._usable(spec, changes)) if changes else spec

    @property
    def is_warm(self) -> bool:
        """Whether it could take on all jobs at once."""
        return self._warm.is_warm

    def step_down(self) -> None:
        """Release all jobs and write nothing more: another service leads."""
        for job in self.fleet:
            self._forget(job.name)
            job.abandon()
        self._warm.forget()
        # The fence stays, so that writes of the old term that are still under way are refused.
        self._term = None

    @property
    def access(self) -> AccessRules:
        return self.config.access

    def make_job(
        self,
        spec: JobSpec,
        requested: Sequence[JobChange] = (),
        past: Callable[[JobSpec], Past | None] = lambda spec: None,
    ) -> ServedJob:
        """Make a job with the changes requested since; ``past`` returns its history, if that is known already."""

        def on_entry(entry: Decision | Event) -> None:
            self.publish(spec.name, entry)

        changes = self._usable(spec, requested)
        quota = JobQuota(self.arbiter, lambda: self.fleet.job(spec.name).spec, lambda: not self.is_taking_over)
        figures = self.figures.of_job(spec.name)

        def wired(loop: ControlLoop) -> None:
            quota.attach(loop)
            figures.attach(loop)

        journal = self.store.journal_of(spec.name)
        return ServedJob(
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
    def _usable(spec: JobSpec, changes: Sequence[JobChange]) -> tuple[JobChange, ...]:
        """Return the changes that still fit a job: its file may have changed since they were made."""
        usable: tuple[JobChange, ...] = ()
        for change in changes:
            try:
                require_usable(changed(spec, (*usable, change)))
            except InputError as error:
                logger.warning("a change of %s to job %s no longer fits: %s", change.kind, spec.name, error)
                continue
            usable = (*usable, change)
        return usable

    def take_on(self, job: ServedJob, term: int | None = None) -> None:
        """Control a job from now on; ``term`` is given if another service controlled it before."""
        self.fleet.add(job)
        self.arbiter.expect(job)
        job.begin(term)
        self.scheduler.add(job)

    def release(self, name: str, why: str) -> None:
        """Stop controlling a job, which stays at its size."""
        if (job := self._forget(name)) is not None:
            job.close(why)

    def _forget(self, name: str) -> ServedJob | None:
        self.scheduler.remove(name)
        self.arbiter.forget(name)
        self.figures.forget(name)
        return self.fleet.remove(name)

    def publish(self, job: str, entry: Decision | Event) -> None:
        """Publish a decision or an event to the listeners."""
        if isinstance(entry, Decision):
            self.hub.publish(entry.at_s, "decision", job, decision_to_dict(entry))
        else:
            self.hub.publish(entry.at_s, "event", job, event_to_dict(entry))

    def store_problem(self) -> str:
        """Return why its store cannot be used; empty if it can. It is checked once a second at most."""
        if time.monotonic() - self._store_checked_s >= STORE_CHECKED_EVERY_S and self._checking.acquire(blocking=False):
            try:
                self.store.tokens.all()
                self._store_problem = ""
            except JournalError as error:
                self._store_problem = str(error)
            finally:
                self._store_checked_s = time.monotonic()
                self._checking.release()
        return self._store_problem

    def run(self) -> None:
        """Step all jobs on a thread, each at its time; if several services share a store, only while this one leads."""
        if self.standby is not None:
            self.standby.start()
        self.scheduler.start()

    def close(self) -> None:
        """Release all jobs, which stay at their sizes. Calling it twice is fine."""
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
