"""The HTTP interface of a controller, version 1: agents report here, and are told their size.

    POST /v1/operators/{operator}/reports   a report, as ``engines/agents/wire.py`` has it; the answer is a reply
    GET  /v1/state                          what was seen and decided last
    GET  /healthz                           whether it answers at all, for everybody

All but the last need ``Authorization: Bearer TOKEN``. What is refused is told in one sentence, as plain text.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from fastapi import FastAPI, Request, Response

from headgate.core.errors import EngineError, HeadgateError, InputError, SupersededError, UnknownNameError
from headgate.core.types import JSON, Instant
from headgate.engines.agents import AgentsEngine
from headgate.engines.agents.wire import LONGEST_TEXT, reply_to_text, report_from_text
from headgate.journal.codec import to_json

_STATUS: tuple[tuple[type[HeadgateError], int], ...] = (
    (UnknownNameError, 404),
    (InputError, 400),
    (SupersededError, 409),
    (EngineError, 503),
)
"""The first that fits is the answer to an error."""
_BEARER = "Bearer "


def make_api(engine: AgentsEngine, token: str, now: Callable[[], Instant], state: Callable[[], JSON]) -> FastAPI:
    """The interface to a mailbox; ``state`` gives what ``/v1/state`` tells."""
    expected = token.encode()
    api = FastAPI(title="Headgate", version="1", docs_url=None, redoc_url=None)

    async def refused(request: Request, error: Exception) -> Response:
        status = next(code for kind, code in _STATUS if isinstance(error, kind))
        return Response(str(error), status, media_type="text/plain")

    for kind, _ in _STATUS:
        api.add_exception_handler(kind, refused)

    @api.middleware("http")
    async def require_token(request: Request, answer: Callable[..., JSON]) -> Response:
        told = request.headers.get("Authorization", "")
        is_known = told.startswith(_BEARER) and secrets.compare_digest(told.removeprefix(_BEARER).encode(), expected)
        if request.url.path != "/healthz" and not is_known:
            return Response("a valid token is needed.", 401, media_type="text/plain")
        if int(request.headers.get("Content-Length") or 0) > LONGEST_TEXT:
            return Response(f"a message may have {LONGEST_TEXT} bytes at most.", 413, media_type="text/plain")
        answered: Response = await answer(request)
        return answered

    @api.get("/healthz")
    async def healthz() -> Response:
        return Response("ok", media_type="text/plain")

    @api.get("/v1/state")
    async def newest_state() -> Response:
        return Response(to_json(state()), media_type="application/json")

    @api.post("/v1/operators/{operator}/reports")
    async def take_report(operator: str, request: Request) -> Response:
        text = (await request.body()).decode("utf-8", errors="replace")
        reply = engine.report(operator, report_from_text(text, now()))
        return Response(reply_to_text(reply), media_type="application/json")

    return api
