"""Headgate keeps a streaming job at the size its service-level objective needs, and no larger."""

from headgate._version import __version__

__all__ = ["__version__"]
