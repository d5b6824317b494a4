"""TaskManagers: what starts and stops them, and how many a job needs.

As many run as the sizes need, and a few more in hot standby where that is wanted: registered with Flink, and used by no
job until it grows. They are started at once, and stopped only when no subtask has run on them for a while.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from headgate.core.errors import EngineError, InputError, UnknownNameError, cause_of
from headgate.core.extras import needing
from headgate.core.types import JSON, Event, Instant
from headgate.engines.flink.responses import TaskManagerEntry

if TYPE_CHECKING:
    import httpx


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


ANSWER_WITHIN_S = 5.0
HTTP_VERSION = 1


class HttpProvider:
    """TaskManagers behind a server of anybody's: ``headgate/local/taskmanager_server.py`` has its three requests."""

    def __init__(self, url: str) -> None:
        with needing("the provider of TaskManagers"):
            import httpx
        self._url = url.rstrip("/")
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, trust_env=False)
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        try:
            self.wanted()  # Report a wrong address now.
        except BaseException:
            self._client.close()
            raise

    def wanted(self) -> int:
        return len(self._names("GET"))

    def add(self, count: int) -> None:
        self._request("POST", {"target": count})

    def remove(self, free: Sequence[str], count: int) -> None:
        there = self._names("GET")
        going = [manager for manager in free if manager in there][:count]
        if going:
            self._request("DELETE", {"used": [name for name in there if name not in going], "free": 0})

    def close(self) -> None:
        self._client.close()

    def _names(self, method: str) -> list[str]:
        answer = self._request(method)
        try:
            found = answer.json()
        except ValueError:
            found = None
        names = found.get("taskmanagers") if isinstance(found, dict) and found.get("version") == HTTP_VERSION else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise EngineError(
                f"the provider at {self._url} cannot be understood: it answers {answer.text[:100]!r}, and "
                f'{{"version": {HTTP_VERSION}, "taskmanagers": [names]}} is needed.'
            )
        return names

    def _request(self, method: str, body: JSON = None) -> httpx.Response:
        what: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._client.request(method, f"{self._url}/taskmanager", **what)
        except self._errors as error:
            raise EngineError(f"the provider at {self._url} does not answer: {cause_of(error)}.") from error
        if not answer.is_success:
            text = answer.text[:200].strip().rstrip(".") or f"status {answer.status_code}"
            raise EngineError(f"the provider at {self._url} did not do {method} /taskmanager: {text}.")
        return answer


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


_ADDRESS = ("http://", "https://")


def provider_kind(name: str) -> ProviderKind:
    try:
        return ProviderKind(name)
    except ValueError:
        raise UnknownNameError("provider", name, map(str, ProviderKind)) from None


def open_provider(name: str, url: str, deployment: str | None = None) -> Provider | None:
    """Return the provider for the cluster at ``url``, by its kind or by the address of a server that is one.

    On Kubernetes it scales a Deployment ``namespace/name``.
    """
    if name != ProviderKind.KUBERNETES and deployment is not None:
        raise InputError(f"deployment {deployment!r} goes with provider kubernetes; the provider is {name}.")
    if name.startswith(_ADDRESS):
        return HttpProvider(name)
    kind = provider_kind(name)
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
    """Fits the TaskManagers of a provider to the slots that a job needs; without a provider it only counts.

    ``standby`` TaskManagers more than are needed run, so that growing does not wait for one to start.
    """

    def __init__(self, provider: Provider | None, *, standby: int = 0, free_for_s: float = FREE_FOR_S) -> None:
        if standby < 0:
            raise InputError(f"{standby} TaskManagers in standby are not possible; 0 or more are.")
        if standby and provider is None:
            raise InputError(f"{standby} TaskManagers in standby need a provider that starts them.")
        self._provider = provider
        self._standby = standby
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
        self._start(now, math.ceil((others + slots) / each) + self._standby, f"of {each} slots for {slots} slots")
        return 0

    def _start(self, now: Instant, needed: int, why: str) -> None:
        """Start as many as are missing, where a provider runs."""
        missing = 0 if self._provider is None else needed - self._provider.wanted()
        if self._provider is not None and missing > 0:
            self._provider.add(missing)
            standby = f", {self._standby} in standby" if self._standby else ""
            self._events.append(Event(now, "taskmanagers-added", f"{missing} more {why}{standby}"))

    def shrink(self, now: Instant, managers: Sequence[TaskManagerEntry], slots: int, own_slots: int) -> None:
        """Stop TaskManagers that are not needed, once they have been free for a while, and complete the standby."""
        if self._provider is None:
            return
        free = {manager.id for manager in managers if manager.is_free}
        self._free_since_s = {name: self._free_since_s.get(name, now) for name in free}
        others = max(0, sum(manager.slots - manager.free_slots for manager in managers) - own_slots)
        needed = max(1, math.ceil((others + max(slots, own_slots)) / _slots_each(managers))) + self._standby
        if self._standby and managers:
            self._start(now, needed, "for the standby")
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
