"""Who asks, as the gate found out."""

from __future__ import annotations

from fastapi import Request

from headgate.service.access.callers import Caller
from headgate.service.access.gate import CALLER


def caller_of(request: Request) -> Caller:
    found: Caller = request.scope[CALLER]
    return found


def who_of(request: Request) -> str:
    """The name of the token."""
    return caller_of(request).name
