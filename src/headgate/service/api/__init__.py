"""The HTTP interface, version 1: one file for each kind of thing. All of it is told by ``/openapi.json``."""

from headgate.service.api.application import make_api, make_service

__all__ = ["make_api", "make_service"]
