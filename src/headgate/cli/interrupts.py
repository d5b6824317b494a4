"""Ctrl-C that is not lost, and that lets a command end in order.

Python cannot raise out of a callback of its own, such as those that end an import or take an object away. A signal that
comes at that moment would be printed as ignored, and the command would go on: it is sent again a moment later.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_AFTER_S = 0.05
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def keep_interrupts() -> None:
    """See that an interrupt reaches the command, whenever it comes."""
    usual, main = sys.unraisablehook, threading.main_thread().ident or 0

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            usual(ignored)
            return
        # To the main thread itself, so that it also wakes from a long wait.
        again = threading.Timer(AGAIN_AFTER_S, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that is set by the first signal to end; a second one interrupts whatever is going on."""
    from headgate.local.interruption import SIGNALS

    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
