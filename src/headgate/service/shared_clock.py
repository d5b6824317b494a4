"""The clock of the database that several services share, so that they agree on what time it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


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
