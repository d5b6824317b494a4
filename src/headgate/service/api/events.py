"""What is new, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from headgate.journal.codec import to_json
from headgate.service.api.answers import problems
from headgate.service.hub import Hub, Message
from headgate.service.service import Service

QUIET_S = 15.0
"""So often a comment is sent where nothing happens: whoever stands between would cut a silent connection."""
_EXAMPLE = 'id: 7\nevent: decision\ndata: {"job":"clicks","at_s":1700000000.0,"decision":{"policy":"autopilot"}}\n\n'


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["history"])

    @made.get(
        "/v1/events",
        summary="What is new, as it happens",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "Server-sent events: decision, event and change, each with its job.",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
            },
            **problems(400),
        },
    )
    async def stream(
        job: Annotated[str | None, Query(description="Only of this job.")] = None,
        since: Annotated[int | None, Query(ge=0, description="After the message of this number first.")] = None,
        last_event_id: Annotated[str | None, Header(description="As browsers send it when they come back.")] = None,
        once: Annotated[bool, Query(description="End after what there is already.")] = False,
    ) -> StreamingResponse:
        told = last_event_id if last_event_id is not None and last_event_id.isdecimal() else None
        after = since if since is not None else None if told is None else int(told)
        return StreamingResponse(_lines(service.hub, job, after, once), media_type="text/event-stream")

    return made


async def _lines(hub: Hub, job: str | None, after: int | None, once: bool) -> AsyncIterator[str]:
    with hub.listening() as listener:
        newest = hub.number if after is None else after
        for message in hub.since(newest):
            newest = message.number
            if job in (None, message.job):
                yield _told(message)
        yield ": listening\n\n"
        while not once:
            try:
                heard = await listener.next(QUIET_S)
            except EOFError:
                return
            if heard is None:
                yield ": nothing new\n\n"
            elif heard.number > newest and job in (None, heard.job):
                yield _told(heard)


def _told(message: Message) -> str:
    data = to_json({"job": message.job, "at_s": message.at_s, message.kind: message.data})
    return f"id: {message.number}\nevent: {message.kind}\ndata: {data}\n\n"
