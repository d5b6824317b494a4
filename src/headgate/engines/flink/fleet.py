"""As many TaskManagers as the sizes need: started at once, stopped only when nothing has run on them for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.core.types import Event, Instant
from headgate.engines.flink.answers import TaskManager
from headgate.engines.flink.providers import Provider

FREE_FOR_S = 15.0
"""A TaskManager that is free may be about to be used: Flink moves subtasks one after the other."""


class TaskManagerFleet:
    """Fits what a provider runs to the slots that are wanted; without one it only counts."""

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

    def grow(self, now: Instant, managers: Sequence[TaskManager], slots: int, own_slots: int) -> int:
        """Have enough for ``slots`` of this job, which has ``own_slots`` now; gives how many slots will be missing."""
        others = max(0, sum(one.slots - one.free_slots for one in managers) - own_slots)
        if self._provider is None:
            return max(0, others + slots - sum(one.slots for one in managers))
        each = _slots_each(managers)
        missing = math.ceil((others + slots) / each) - self._provider.wanted()
        if missing > 0:
            self._provider.add(missing)
            self._events.append(Event(now, "taskmanagers-added", f"{missing} more of {each} slots for {slots} slots"))
        return 0

    def shrink(self, now: Instant, managers: Sequence[TaskManager], slots: int, own_slots: int) -> None:
        """Let go of what nobody needs any more, once nothing has run on it for a while."""
        if self._provider is None:
            return
        free = {one.id for one in managers if one.is_free}
        self._free_since_s = {name: self._free_since_s.get(name, now) for name in free}
        others = max(0, sum(one.slots - one.free_slots for one in managers) - own_slots)
        needed = max(1, math.ceil((others + max(slots, own_slots)) / _slots_each(managers)))
        # Those that were asked for and have not registered yet are still to come.
        spare = min(self._provider.wanted(), len(managers)) - needed
        idle = [name for name, since_s in self._free_since_s.items() if now - since_s >= self._free_for_s]
        going = min(spare, len(idle))
        if going > 0:
            self._provider.remove(idle, going)
            self._events.append(Event(now, "taskmanagers-removed", f"{going} that nothing ran on"))
            for name in idle[:going]:
                del self._free_since_s[name]

    def close(self) -> None:
        if self._provider is not None:
            self._provider.close()


def _slots_each(managers: Sequence[TaskManager]) -> int:
    """Slots of one TaskManager; as long as there is none to look at, one."""
    return max((one.slots for one in managers), default=1)
