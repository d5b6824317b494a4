"""The command line: one file per command, put together in ``app.py``."""

from headgate.cli.app import main

__all__ = ["main"]
