"""The service itself: its jobs, what steps them, what it keeps, and who listens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType

from headgate.core.errors import InputError, JournalError
from headgate.core.types import Decision, Event
from headgate.journal.codec import decision_to_dict, event_to_dict
from headgate.runtime.clock import Clock, SystemClock
from headgate.service.changed import changed, require_usable
from headgate.service.config.model import AccessRules, JobSpec, ServiceConfig
from headgate.service.fleet import Fleet
from headgate.service.hub import Hub
from headgate.service.jobs import Job
from headgate.service.operations import Operations
from headgate.service.scheduler import Scheduler
from headgate.service.store import Store
from headgate.service.store.changes import Change

logger = logging.getLogger("headgate")


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

    def __init__(self, config: ServiceConfig, store: Store, clock: Clock | None = None) -> None:
        self.config = config
        self.config_problem = ""
        """What is wrong with the newest form of its file, where the one before is still in force."""
        self.store = store
        self.clock = clock or SystemClock()
        self.hub = Hub()
        self.fleet = Fleet()
        self.scheduler = Scheduler(self.clock)
        self.operations = Operations(self)
        self.started_s = self.clock.now()
        for spec in config.jobs:
            self.take_on(self.made(spec))

    @property
    def access(self) -> AccessRules:
        return self.config.access

    def made(self, spec: JobSpec) -> Job:
        """A job of this service, as it is asked for."""

        def hear(entry: Decision | Event) -> None:
            self.tell(spec.name, entry)

        changes = self._usable(spec, self.store.changes.of(spec.name))
        return Job(spec, self.store.journal_of(spec.name), self.clock, hear=hear, changes=changes)

    @staticmethod
    def _usable(spec: JobSpec, changes: Sequence[Change]) -> tuple[Change, ...]:
        """The changes that still fit a job: its file may have been written anew since."""
        kept: tuple[Change, ...] = ()
        for change in changes:
            try:
                require_usable(changed(spec, (*kept, change)))
            except InputError as error:
                logger.warning("a change of %s to job %s no longer fits: %s", change.kind, spec.name, error)
                continue
            kept = (*kept, change)
        return kept

    def take_on(self, job: Job) -> None:
        """Look after a job from now on."""
        self.fleet.add(job)
        job.begin()
        self.scheduler.add(job)

    def let_go(self, name: str, why: str) -> None:
        """Look after a job no longer; it keeps its size."""
        self.scheduler.remove(name)
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
        """Step all jobs, each at its time, on a thread."""
        self.scheduler.start()

    def close(self) -> None:
        """Let go of all jobs, which keep their sizes. Twice is fine."""
        self.scheduler.stop()
        self.hub.close()
        for job in self.fleet:
            job.close()
        self.store.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
