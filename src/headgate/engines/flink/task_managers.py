"""TaskManagers: what starts and stops them, and how many a job needs.

As many run as the sizes need: they are started at once, and stopped only when no subtask has run on them for a while.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import Event, Instant
from headgate.engines.flink.responses import TaskManagerEntry


class LocalProvider:
    """TaskManagers as processes of this machine, in a cluster that ``headgate flink up`` started."""

    def __init__(self, url: str) -> None:
        # Needs psutil, which an extra brings; the engine works without it.
        from headgate.local.flink import FlinkCluster

        self._cluster = FlinkCluster.at(url)

    def wanted(self) -> int:
        return len(self._cluster.wanted())

    def add(self, count: int) -> None:
        for _ in range(count):
            self._cluster.add_taskmanager()

    def remove(self, free: Sequence[str], count: int) -> None:
        there = self._cluster.wanted()
        for name in [manager for manager in free if manager in there][:count]:
            self._cluster.remove_taskmanager(name)

    def close(self) -> None:
        """Do nothing: the TaskManagers keep running."""


class Provider(Protocol):
    """Starts and stops TaskManagers. Every call returns at once; Flink shows the effect."""

    def wanted(self) -> int:
        """Return how many are meant to run, registered with Flink or not."""
        ...

    def add(self, count: int) -> None: ...

    def remove(self, free: Sequence[str], count: int) -> None:
        """Stop so many of the free ones, which are given by Flink's ids."""
        ...

    def close(self) -> None: ...


class ProviderKind(StrEnum):
    NONE = "none"
    """TaskManagers are managed elsewhere: Flink runs what fits, and uses more when they register."""
    LOCAL = "local"
    KUBERNETES = "kubernetes"


def provider_kind(name: str) -> ProviderKind:
    try:
        return ProviderKind(name)
    except ValueError:
        raise UnknownNameError("provider", name, map(str, ProviderKind)) from None


def open_provider(kind: ProviderKind, url: str, deployment: str | None = None) -> Provider | None:
    """Return the provider for the cluster at ``url``; on Kubernetes it scales a Deployment ``namespace/name``."""
    if kind is not ProviderKind.KUBERNETES and deployment is not None:
        raise InputError(f"deployment {deployment!r} goes with provider kubernetes; the provider is {kind}.")
    match kind:
        case ProviderKind.NONE:
            return None
        case ProviderKind.LOCAL:
            return LocalProvider(url)
        case ProviderKind.KUBERNETES:
            from headgate.engines.flink.kubernetes import KubernetesProvider

            if deployment is None:
                raise InputError("provider kubernetes needs the Deployment of the TaskManagers, as flink/taskmanager.")
            return KubernetesProvider(deployment)


FREE_FOR_S = 15.0
"""How long a TaskManager must be free before it is stopped: Flink moves subtasks one after the other."""


class TaskManagerFleet:
    """Fits the TaskManagers of a provider to the slots that a job needs; without a provider it only counts."""

    def __init__(self, provider: Provider | None, *, free_for_s: float = FREE_FOR_S) -> None:
        self._provider = provider
        self._free_for_s = free_for_s
        self._free_since_s: dict[str, Instant] = {}
        self._events: list[Event] = []

    @property
    def is_managed(self) -> bool:
        return self._provider is not None

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def grow(self, now: Instant, managers: Sequence[TaskManagerEntry], slots: int, own_slots: int) -> int:
        """Start what ``slots`` of this job need, which has ``own_slots`` now; return how many will be missing."""
        others = max(0, sum(manager.slots - manager.free_slots for manager in managers) - own_slots)
        if self._provider is None:
            return max(0, others + slots - sum(manager.slots for manager in managers))
        each = _slots_each(managers)
        missing = math.ceil((others + slots) / each) - self._provider.wanted()
        if missing > 0:
            self._provider.add(missing)
            self._events.append(Event(now, "taskmanagers-added", f"{missing} more of {each} slots for {slots} slots"))
        return 0

    def shrink(self, now: Instant, managers: Sequence[TaskManagerEntry], slots: int, own_slots: int) -> None:
        """Stop TaskManagers that are not needed, once they have been free for a while."""
        if self._provider is None:
            return
        free = {manager.id for manager in managers if manager.is_free}
        self._free_since_s = {name: self._free_since_s.get(name, now) for name in free}
        others = max(0, sum(manager.slots - manager.free_slots for manager in managers) - own_slots)
        needed = max(1, math.ceil((others + max(slots, own_slots)) / _slots_each(managers)))
        # Some may have been started and not registered yet.
        spare = min(self._provider.wanted(), len(managers)) - needed
        idle = [name for name, since_s in self._free_since_s.items() if now - since_s >= self._free_for_s]
        going = min(spare, len(idle))
        if going > 0:
            self._provider.remove(idle, going)
            self._events.append(Event(now, "taskmanagers-removed", f"{going} that were free"))
            for name in idle[:going]:
                del self._free_since_s[name]

    def close(self) -> None:
        if self._provider is not None:
            self._provider.close()


def _slots_each(managers: Sequence[TaskManagerEntry]) -> int:
    """Return the slots of one TaskManager, or 1 while there is none."""
    return max((manager.slots for manager in managers), default=1)
