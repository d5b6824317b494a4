"""Tells an open page that there is something new; it then asks for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from headgate.service.service import Service

QUIET_S = 15.0
"""Without news a line that means nothing is sent so often, so that nobody takes the connection for dead."""
RETRY_MS = 2000
LIVE = "/live"


def router(service: Service) -> APIRouter:
    made = APIRouter(include_in_schema=False)

    @made.get(LIVE)
    async def live(request: Request, job: str = "") -> Response:
        """News of one job, or of all."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(news(service, job), media_type="text/event-stream", headers=headers)

    return made


async def news(service: Service, job: str) -> AsyncIterator[str]:
    """One line for each piece of news; what it is, the page finds out."""
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
                yield f"event: news\nid: {message.number}\ndata: {message.kind}\n\n"
