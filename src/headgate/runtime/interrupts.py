"""Handle Ctrl-C where it would be lost: during compiled functions, and in callbacks of Python.

Python delivers a signal where such a function calls Python to make its result. An interrupt raised there is reported as
a failure of the function, or ends the whole process, so it is raised a moment later. Other compiled code turns an
interrupt into a ``SystemError`` whose cause it is; that must not be taken for a failure. Nor can Python raise out of a
callback of its own, such as those that end an import or take an object away: a signal at that moment would be printed
as ignored and the command would go on, so it too is sent again.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
AGAIN_AFTER_S = 0.05
_CALLED_BY_COMPILED = "_numba_unpickle"
"""The Python function that numba's compiled functions call."""


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Inside the block, raise no interrupt where it would be lost; a program's own handler stays in place."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name == _CALLED_BY_COMPILED:
            send_interrupt_again()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def send_interrupt_again() -> None:
    """Interrupt the program a moment later."""
    # The main thread itself, so that it also wakes from a long wait.
    main = threading.main_thread().ident or 0
    again = threading.Timer(AGAIN_AFTER_S, signal.pthread_kill, (main, signal.SIGINT))
    again.daemon = True
    again.start()


def raise_if_interrupted(error: Exception) -> None:
    """Raise the interrupt that an error stands for, if it does.

    >>> raise_if_interrupted(SystemError("a defect"))
    """
    if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
        raise KeyboardInterrupt from error


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
