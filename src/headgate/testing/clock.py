"""A clock for tests: time passes only on request, and nothing sleeps."""

from __future__ import annotations

import threading


class FakeClock:
    """A clock that waiting moves forward at once.

    >>> clock = FakeClock()
    >>> clock.advance(5)
    >>> clock.wait_until(60, threading.Event())
    >>> clock.now()
    60.0
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = float(start_s)

    def now(self) -> float:
        return self._now_s

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        if not stop.is_set():
            self._now_s = max(self._now_s, float(at_s))

    def advance(self, seconds: float) -> None:
        """Let time pass; it never goes back."""
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s; it never goes back")
        self._now_s += seconds
