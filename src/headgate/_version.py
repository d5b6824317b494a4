"""The version of Headgate, declared here only."""

__version__ = "0.1.0"
