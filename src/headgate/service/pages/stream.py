"""Notifies open pages of changes by server-sent events; they then load themselves again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from headgate.service.service import Service

QUIET_S = 15.0
"""Without changes a comment is sent this often, so that no proxy takes the connection for dead."""
RETRY_MS = 2000
LIVE = "/live"


def router(service: Service) -> APIRouter:
    made = APIRouter(include_in_schema=False)

    @made.get(LIVE)
    async def live(request: Request, job: str = "") -> Response:
        """Notify of changes of one job, or of all."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(notifications(service, job), media_type="text/event-stream", headers=headers)

    return made


async def notifications(service: Service, job: str) -> AsyncIterator[str]:
    """Yield one event for each change; the page finds out what it is."""
    with service.hub.listening() as listener:
        yield f"retry: {RETRY_MS}\n\n"
        while True:
            try:
                message = await listener.next(QUIET_S)
            except EOFError:
                return
            if message is None:
                yield ": quiet\n\n"
            elif not job or message.job in ("", job):
                yield f"event: change\nid: {message.number}\ndata: {message.kind}\n\n"
