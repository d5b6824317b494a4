"""What an agent has to tell in order, until it is known to have arrived."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

MOST_KEPT = 500
"""So many are kept for a controller that is away; of more, the oldest are let go."""
T = TypeVar("T")


class Outbox(Generic[T]):
    """Things of one kind, numbered from 0 on; filled from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[T] = deque()
        self.first = 0
        """How many came before the first that waits."""

    @property
    def waiting(self) -> tuple[T, ...]:
        with self._lock:
            return tuple(self._kept)

    def add(self, new: Iterable[T]) -> None:
        with self._lock:
            self._kept.extend(new)
            while len(self._kept) > MOST_KEPT:
                self._drop()

    def arrived(self, until: int) -> None:
        """All that came before the one of this number have arrived."""
        with self._lock:
            while self._kept and self.first < until:
                self._drop()

    def _drop(self) -> None:
        self._kept.popleft()
        self.first += 1
