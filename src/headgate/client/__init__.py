"""A client of the service, for programs and for the command line; it uses nothing but the HTTP interface."""

from headgate.client.client import Client

__all__ = ["Client"]
