"""Ctrl-C that is not lost, and that lets a command end in order.

Python cannot raise out of a callback of its own, such as those that end an import or take an object away. A signal that
comes at that moment would be printed as ignored, and the command would go on: it is sent again a moment later. Neither
can it raise out of what compiled functions call to make their results: that would be told as a failure of the function.
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
_CALLED_BY_COMPILED = "_numba_unpickle"
"""What numba's compiled functions call; as signals wait while they run, this is where most are met."""


def keep_interrupts() -> None:
    """See that an interrupt reaches the command, whenever it comes."""
    usual = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            _send_again()
        else:
            usual(ignored)

    sys.unraisablehook = hook
    # Where a shell has interrupts ignored, as in what it starts in the background, they stay so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name == _CALLED_BY_COMPILED:
            _send_again()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _send_again() -> None:
    # To the main thread itself, so that it also wakes from a long wait.
    main = threading.main_thread().ident or 0
    again = threading.Timer(AGAIN_AFTER_S, signal.pthread_kill, (main, signal.SIGINT))
    again.daemon = True
    again.start()


@contextmanager
def told_when_stopped(kept: str) -> Iterator[None]:
    """Say what is kept of work that is interrupted."""
    import typer

    from headgate.cli.common import say

    try:
        yield
    except KeyboardInterrupt:
        say(f"headgate: stopped; {kept}.", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


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
