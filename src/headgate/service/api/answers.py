"""Answers of the API: JSON, with numbers that are not finite, and errors as one sentence of plain text."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from headgate.core.errors import (
    EngineError,
    HeadgateError,
    InputError,
    JournalError,
    NotLeadingError,
    SupersededError,
    UnknownNameError,
)
from headgate.core.types import JSON
from headgate.core.units import printable
from headgate.engines.agents.wire import NOT_LEADING
from headgate.journal.codec import to_json
from headgate.service.gate import CALLER, Caller

LONGEST = 20_000
"""Characters of an error; that of a rule file lists a hundred mistakes at most."""
NOT_FOUND = frozenset({"job", "operator", "period", "change"})
"""What a path names; of other names it is the body that is wrong."""
_STATUS: tuple[tuple[type[HeadgateError], int], ...] = (
    (InputError, 400),
    (SupersededError, 409),
    (NotLeadingError, NOT_LEADING),
    (EngineError, 503),
    (JournalError, 503),
)
_SENTENCE = {"text/plain": {"schema": {"type": "string"}, "example": "unknown job 'clicsk', did you mean 'clicks'?"}}
_DESCRIPTIONS = {
    400: "What was sent cannot be used; the sentence says why.",
    401: "A valid token is needed.",
    403: "The token may not do this.",
    404: "There is nothing of that name.",
    409: "Another agent has taken the place of this one.",
    413: "What was sent is too long.",
    421: "Another service leads, whose address is in the header Headgate-Leader, or this one is about to.",
    429: "Too many requests.",
    503: "It cannot be done just now.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of error statuses; those of the gate are always included."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": _SENTENCE}
        for status in sorted({400, 401, 403, 413, 429, *statuses})
    }


def json_response(value: JSON, status: int = 200) -> Response:
    """A value as JSON; numbers that are not finite are written as ``{"$float": "inf"}``."""
    return Response(to_json(value), status, media_type="application/json")


def add_error_handlers(api: FastAPI) -> None:
    """Answer errors that are raised on purpose with one sentence."""

    async def refused(request: Request, error: Exception) -> Response:
        return _sentence(str(error), _status_of(error))

    async def misshapen(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        return _sentence(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}.", 400)

    async def nested(request: Request, error: Exception) -> Response:
        return Response("the message is nested too deeply.", 400, media_type="text/plain")

    async def gone(request: Request, error: Exception) -> Response:
        # Nobody receives it; without it, the server would log a traceback.
        return Response("the request was not sent whole.", 400, media_type="text/plain")

    async def by_status(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return Response(f"{error.detail}.", error.status_code, error.headers, media_type="text/plain")

    api.add_exception_handler(HeadgateError, refused)
    api.add_exception_handler(RequestValidationError, misshapen)
    api.add_exception_handler(RecursionError, nested)
    api.add_exception_handler(ClientDisconnect, gone)
    api.add_exception_handler(HTTPException, by_status)


def _sentence(text: str, status: int) -> Response:
    """Return an error as plain text; it may quote what was sent, which need not be possible to encode."""
    shown = printable(text)
    return Response(shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…", status, media_type="text/plain")


def document(api: FastAPI) -> None:
    """Remove status 422 from the documentation: here a malformed request is a 400, with a sentence."""
    usual = api.openapi

    def described() -> dict[str, Any]:
        found = usual()
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        return found

    api.openapi = described  # type: ignore[method-assign]  # as FastAPI's own manual has it


def _status_of(error: Exception) -> int:
    if isinstance(error, UnknownNameError) and error.kind in NOT_FOUND:
        return 404
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 500)


def caller_of(request: Request) -> Caller:
    found: Caller = request.scope[CALLER]
    return found


def who_of(request: Request) -> str:
    """The name of the token."""
    return caller_of(request).name
