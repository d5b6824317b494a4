"""For processes that end when they are told to, or with their parent, who holds the other end of their input."""

from __future__ import annotations

import os
import signal
import sys
import threading


def ended_by_parent() -> threading.Event:
    """An event that is set by SIGTERM, or when the parent is gone. Nothing is raised, so that calls are finished."""
    stop = threading.Event()

    def await_parent() -> None:
        os.read(sys.stdin.fileno(), 1)  # Returns when the parent is gone.
        stop.set()

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=await_parent, name="await-parent", daemon=True).start()
    return stop
