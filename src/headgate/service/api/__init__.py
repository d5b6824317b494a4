"""The HTTP interface, version 1: one file for each kind of thing; ``/openapi.json`` describes all of it."""

from headgate.service.api.application import make_api, make_service

__all__ = ["make_api", "make_service"]
