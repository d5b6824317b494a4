"""A service for a configuration: alone with its store, or one of several that share it."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

from headgate.runtime.clock import Clock
from headgate.service.config.model import ServiceConfig
from headgate.service.lease import LASTS_S
from headgate.service.service import Service
from headgate.service.standby import Standby
from headgate.service.store import Store


class SharedClock:
    """Seconds since the epoch by another's clock: read once, then counted by this machine's monotonic clock.

    >>> clock = SharedClock(lambda: 1000.0, lambda: 5.0)
    >>> clock.now()
    1000.0
    """

    def __init__(self, read: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        before_s = monotonic()
        shown_s = read()
        # What was shown held at some moment while it was asked for; the middle errs least.
        self._offset_s = shown_s - (before_s + monotonic()) / 2

    def now(self) -> float:
        return self._offset_s + self._monotonic()

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))


SHORTEST_LEASE_S = 2.0
"""A busy machine may keep a process waiting for a second; a lease must outlast that."""
OF_AN_INTERVAL = 0.4
"""A leader that is gone is noticed within so much of an interval: the next decision comes within two of them."""


def service_of(config: ServiceConfig, store: Store, clock: Clock | None = None) -> Service:
    """The service of a configuration. Where others share its store it leads only when none of them does."""
    if not store.is_shared:
        return Service(config, store, clock)
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    lease = store.lease(holder, config.url, lease_lasts_s(config))
    service = Service(config, store, clock or SharedClock(lease.database_time_s), leads=False)
    service.standby = Standby(lease, service)
    return service


def lease_lasts_s(config: ServiceConfig) -> float:
    """How long a leader may be away before another takes over: a part of the shortest interval."""
    shortest_s = min((job.interval_s for job in config.jobs), default=LASTS_S / OF_AN_INTERVAL)
    return max(SHORTEST_LEASE_S, min(LASTS_S, OF_AN_INTERVAL * shortest_s))
