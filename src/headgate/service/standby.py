"""Elect one of several services that share a database as leader; the others stand by.

A thread renews the lease while this service leads, and tries to acquire it while another does. The service that
acquires it takes on all jobs from the journal; the one that lost it releases them and writes nothing more. A leader
that cannot renew its lease because the database is away stops answering agents and deciding before the lease ends, and
continues if no other service has led since.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from headgate.core.errors import DeposedError, HeadgateError
from headgate.runtime.loop import Clock
from headgate.service.config.model import ServiceConfig
from headgate.service.lease import LASTS_S, Lease, Term
from headgate.service.service import Service
from headgate.service.store import Store

logger = logging.getLogger("headgate")

RENEWALS = 4
"""Renewals of a lease within its duration."""
CHECKS = 8
"""Checks by standbys whether it has ended, within the same duration."""
COLD_DELAY_SHARE = 2
"""A service that has not followed the jobs yet waits another such part of the duration before it takes a lease."""


class Leading(Protocol):
    """A service, as far as leading is concerned."""

    def lead(self, token: int, may_continue: Callable[[], bool]) -> None:
        """Take on all jobs, as long as ``may_continue`` returns true."""
        ...

    def step_down(self) -> None:
        """Release all jobs, and write nothing more."""
        ...

    def stand_by(self) -> None:
        """Follow what the leader journals."""
        ...

    @property
    def is_warm(self) -> bool:
        """Whether it has followed enough to take on all jobs at once."""
        ...


class Standby:
    """Lets ``service`` lead while it holds the lease; ``step`` checks once, and ``start`` checks on a thread."""

    def __init__(self, lease: Lease, service: Leading, now: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._service = service
        self._now = now
        self._term: Term | None = None
        self._is_complete = False
        """Whether all jobs were taken on."""
        self._taking_on: threading.Thread | None = None
        self._following_failed = False
        self._failed: Term | None = None
        """A term in which the jobs could not be taken on."""
        self.leader_url = ""
        """The address of the leader, if it is known."""
        self.problem = ""
        """Why the lease cannot be checked; empty if it can."""
        self._led_s = now()
        """When somebody led last, as far as is known."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-standby", daemon=True)

    # ------------------------------------------------------------------------------------------------------- status

    @property
    def leads(self) -> bool:
        """Whether this service may decide and answer agents at this moment, for the jobs that it has taken on."""
        term = self._term
        return term is not None and term.holds(self._now())

    @property
    def is_complete(self) -> bool:
        """Whether it leads, and all jobs were taken on."""
        return self._is_complete and self.leads

    @property
    def leaderless_s(self) -> float:
        """How long nobody has led although the store can be reached."""
        return 0.0 if self.problem else self._now() - self._led_s

    @property
    def token(self) -> int | None:
        term = self._term
        return None if term is None else term.token

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # ----------------------------------------------------------------------------------------------------- lifecycle

    def start(self) -> Standby:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop leading and release the lease, so that another service can lead at once. Calling it twice is fine."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        term, self._term = self._term, None
        self._await_taking_on()
        if term is not None:
            try:
                self._lease.release(term)
            except HeadgateError as error:
                logger.warning("the lease could not be released, and will end by itself: %s", error)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.step()
            self._stop.wait(self._lease.lasts_s / (CHECKS if self._term is None else RENEWALS))

    def step(self) -> None:
        """Renew the lease, or try to acquire it."""
        try:
            if self._term is None:
                self._try_to_lead()
            else:
                self._renew(self._term)
        except Exception as error:
            # The thread must not end, whatever it was: otherwise nobody would lead once the leader is gone.
            is_known = isinstance(error, HeadgateError)
            if not self.problem:
                logger.warning("the lease cannot be checked: %s", error, exc_info=not is_known)
            self.problem = str(error) or type(error).__name__
            self._led_s = self._now()
        else:
            self.problem = ""
        if self.is_complete:
            self._led_s = self._now()

    def _try_to_lead(self) -> None:
        # A service that has just been started leaves the lease to those that have followed the jobs, if there are any.
        term = self._lease.acquire(0.0 if self._service.is_warm else self._lease.lasts_s / COLD_DELAY_SHARE)
        if term is None:
            self._led_s = self._now()
            leader = self._lease.leader()
            self.leader_url = "" if leader is None else leader.url
            self._follow()
            return
        logger.warning("this service leads from now on, in term %d", term.token)
        self._term, self.leader_url = term, ""
        # On a thread of its own, because taking on a thousand jobs may take longer than the lease lasts.
        self._taking_on = threading.Thread(target=self._take_on, args=(term,), name="headgate-taking-on", daemon=True)
        self._taking_on.start()

    def _follow(self) -> None:
        try:
            self._service.stand_by()
        except HeadgateError:
            raise
        except Exception as error:
            # It can lead all the same: it then reads each job from the journal as it takes it on.
            if not self._following_failed:
                logger.exception("the jobs cannot be followed: %s", error)
            self._following_failed = True
        else:
            self._following_failed = False

    def _take_on(self, term: Term) -> None:
        def may_continue() -> bool:
            return self.token == term.token and not self._stop.is_set()

        try:
            self._service.lead(term.token, may_continue)
        except DeposedError as error:
            logger.warning("term %d ended while jobs were taken on: %s", term.token, error)
        except Exception as error:
            # Without its jobs it must not prevent others from leading: it steps down at the next check.
            is_known = isinstance(error, HeadgateError)
            logger.error("jobs cannot be taken on in term %d: %s", term.token, error, exc_info=not is_known)
            self._failed = term
        else:
            self._is_complete = may_continue()

    def _renew(self, term: Term) -> None:
        if self._failed is not None and self._failed.token == term.token:
            self._lease.release(term)
            self._step_down("its jobs could not be taken on")
            return
        renewed = self._lease.renew(term)
        if renewed is None:
            self._step_down("another has led since")
        else:
            self._term = renewed

    def _step_down(self, why: str) -> None:
        logger.warning("this service no longer leads: %s", why)
        self._term = None
        self._await_taking_on()
        self._service.step_down()

    def _await_taking_on(self) -> None:
        self._is_complete = False
        if self._taking_on is not None:
            self._taking_on.join()
            self._taking_on = None
        self._is_complete = False


class SharedClock:
    """Seconds since the epoch by the clock of the database: read once, then counted by the local monotonic clock.

    >>> clock = SharedClock(lambda: 1000.0, lambda: 5.0)
    >>> clock.now()
    1000.0
    """

    def __init__(self, read: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        before_s = monotonic()
        shown_s = read()
        # The time was read at some moment between request and answer; the middle has the smallest error.
        self._offset_s = shown_s - (before_s + monotonic()) / 2

    def now(self) -> float:
        return self._offset_s + self._monotonic()

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))


SHORTEST_LEASE_S = 2.0
"""A busy machine may suspend a process for a second; a lease must outlast that."""
SHARE_OF_INTERVAL = 0.4
"""A lost leader is noticed within this share of an interval, so that the next decision comes within two intervals."""


def service_of(config: ServiceConfig, store: Store, clock: Clock | None = None) -> Service:
    """Make the service of a configuration; if others share its store, it leads only when none of them does."""
    if not store.is_shared:
        return Service(config, store, clock)
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    lease = store.lease(holder, config.url, lease_lasts_s(config))
    service = Service(config, store, clock or SharedClock(lease.database_time_s), leads=False)
    service.standby = Standby(lease, service)
    return service


def lease_lasts_s(config: ServiceConfig) -> float:
    """Return how long a leader may be away before another takes over: a part of the shortest interval."""
    shortest_s = min((job.interval_s for job in config.jobs), default=LASTS_S / SHARE_OF_INTERVAL)
    return max(SHORTEST_LEASE_S, min(LASTS_S, SHARE_OF_INTERVAL * shortest_s))
