"""The command line: one file per command, put together in ``app.py``."""

from __future__ import annotations

import sys

from headgate.runtime.interrupts import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the ``headgate`` script."""
    try:
        # Imported only here: it takes most of a second, in which Ctrl-C would print a traceback.
        from headgate.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
