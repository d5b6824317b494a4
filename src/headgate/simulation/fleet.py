"""The instances of one simulated operator: planned, requested and ready, kept apart."""

from __future__ import annotations

import math
from collections import deque

from headgate.core.types import Instances, Instant


class Fleet:
    """Instances take ``startup_s`` to become ready; they leave at once, those that are still starting first."""

    def __init__(self, ready: int, startup_s: float) -> None:
        self.ready = ready
        self.planned = ready
        self._startup_s = startup_s
        self._starting: deque[Instant] = deque()
        """When each instance that is starting will be ready, soonest first."""

    @property
    def instances(self) -> Instances:
        return Instances(planned=self.planned, requested=self.planned, ready=self.ready)

    @property
    def next_ready_s(self) -> Instant:
        """When the next instance becomes ready; infinity when none is starting."""
        return self._starting[0] if self._starting else math.inf

    def bring_to(self, planned: int, now: Instant) -> bool:
        """Ask for a size, replacing instances that were lost; whether there was anything to do."""
        before = self.planned
        self.planned = planned
        missing = planned - self.ready - len(self._starting)
        if missing > 0:
            self._starting.extend([now + self._startup_s] * missing)
            self.join(now)
        for _ in range(-missing):
            if self._starting:
                self._starting.pop()
            else:
                self.ready -= 1
        return missing != 0 or planned != before

    def join(self, now: Instant) -> None:
        """Instances that have started by now become ready."""
        while self._starting and self._starting[0] <= now:
            self._starting.popleft()
            self.ready += 1
