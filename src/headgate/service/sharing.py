"""A service for a configuration: alone with its store, or one of several that share it."""

from __future__ import annotations

import os
import socket
import uuid

from headgate.runtime.clock import Clock
from headgate.service.config.model import ServiceConfig
from headgate.service.lease import LASTS_S
from headgate.service.service import Service
from headgate.service.shared_clock import SharedClock
from headgate.service.standby import Standby
from headgate.service.store import Store

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
