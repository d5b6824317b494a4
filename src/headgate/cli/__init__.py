"""The command line."""

from headgate.cli.app import main

__all__ = ["main"]
