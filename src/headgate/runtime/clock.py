"""Where the loop gets its time from."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds; never goes back."""
        ...

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        """Wait for a time to come, or for ``stop`` to be set."""
        ...


class SystemClock:
    """Seconds since the epoch that never jump: read once from the wall, then counted by the monotonic clock."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset_s + time.monotonic()

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))
