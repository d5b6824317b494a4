"""Ctrl-C that is not lost, and that lets a command end in order.

Python cannot raise out of a callback of its own, such as those that end an import or take an object away. A signal that
comes at that moment would be printed as ignored, and the command would go on: it is sent again a moment later.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from headgate.runtime.interrupts import interrupts_deferred, send_interrupt_again

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


@contextmanager
def interrupts_delivered() -> Iterator[None]:
    """See that an interrupt reaches the command inside the block, whenever it comes."""
    usual = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            send_interrupt_again()
        else:
            usual(ignored)

    sys.unraisablehook = hook
    # Where a shell has interrupts ignored, as in what it starts in the background, they stay so.
    with interrupts_deferred():
        yield


@contextmanager
def message_when_stopped(message: str | Callable[[], str]) -> Iterator[None]:
    """Print what remains of work that is interrupted: a text, or a function that returns it."""
    import typer

    from headgate.cli.common import say

    try:
        yield
    except KeyboardInterrupt:
        say(f"headgate: stopped; {message if isinstance(message, str) else message()}.", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that is set by the first signal to end; a second one interrupts whatever is going on."""
    from headgate.local.spark.interruption import SIGNALS

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
