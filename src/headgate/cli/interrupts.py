"""Ctrl-C that is not lost.

Python cannot raise out of a callback of its own, such as those that end an import or take an object away. A signal that
comes at that moment would be printed as ignored, and the command would go on: it is sent again a moment later.
"""

from __future__ import annotations

import _thread
import sys
import threading

AGAIN_AFTER_S = 0.05


def keep_interrupts() -> None:
    """See that an interrupt reaches the command, whenever it comes."""
    usual = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            usual(ignored)
            return
        again = threading.Timer(AGAIN_AFTER_S, _thread.interrupt_main)
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
