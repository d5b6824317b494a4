"""The history of a job: its readings, decisions and events, and the stream of new ones."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from headgate.core.types import JSON, Observation, Role
from headgate.journal.codec import decision_to_dict, event_to_dict, observation_to_dict, to_json
from headgate.service.api.answers import json_response, problems
from headgate.service.api.models import DecisionsView, EventsView, ReadingsView
from headgate.service.hub import Hub, Message
from headgate.service.service import Service

MOST_READ = 20_000
"""Decisions of some days."""


def decisions_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["history"])

    @made.get(
        "/v1/jobs/{job}/decisions",
        response_model=DecisionsView,
        responses=problems(404, 503),
        summary="What was decided, and why",
    )
    def decisions(
        job: str,
        shadows: Annotated[bool, Query(description="With what shadows would have done.")] = False,
        holds: Annotated[bool, Query(description="With decisions that changed nothing.")] = True,
        since_s: SinceQuery = None,
        last: LastQuery = 100,
    ) -> Response:
        journal = service.fleet.job(job).journal
        # How many of them are filtered out is not known, but the number of decisions read must have a limit.
        most = last if holds and shadows else MOST_READ
        found = [
            decision
            for decision in journal.decisions(run=journal.run, since_s=since_s, last=most)
            if (shadows or decision.role is not Role.SHADOW) and (holds or not decision.is_hold)
        ]
        return json_response({"decisions": [decision_to_dict(decision) for decision in found[-last:]]})

    @made.get(
        "/v1/jobs/{job}/events", response_model=EventsView, responses=problems(404, 503), summary="What happened to it"
    )
    def events(job: str, since_s: SinceQuery = None, last: LastQuery = 100) -> Response:
        journal = service.fleet.job(job).journal
        found = journal.events(run=journal.run, since_s=since_s)
        return json_response({"events": [event_to_dict(event) for event in found[-last:]]})

    return made


MOST = 5000
LastQuery = Annotated[int, Query(ge=1, le=MOST, description="At most so many, the newest of them.", examples=[100])]
SinceQuery = Annotated[
    float | None, Query(ge=0, le=1e12, description="Only those at or after this moment, in seconds since the epoch.")
]


def readings_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["history"])

    @made.get(
        "/v1/jobs/{job}/readings", response_model=ReadingsView, responses=problems(404), summary="What was seen of it"
    )
    def readings(
        job: str,
        operator: Annotated[str | None, Query(description="Only of this operator.")] = None,
        since_s: SinceQuery = None,
        last: LastQuery = 100,
    ) -> Response:
        found = service.fleet.job(job)
        if operator is not None:
            found.require_operator(operator)
        # The newest are in memory; what is older than the loop looks back is read from the journal.
        with found.at_rest() as loop:
            seen = list(loop.history.observations)
        if since_s is not None and (not seen or since_s < seen[0].at_s):
            seen = found.journal.observations(run=found.journal.run, since_s=since_s)
        elif since_s is not None:
            seen = [observation for observation in seen if observation.at_s >= since_s]
        return json_response(
            {"operator": operator, "readings": [_of_operator(observation, operator) for observation in seen[-last:]]}
        )

    return made


def _of_operator(seen: Observation, operator: str | None) -> JSON:
    data = observation_to_dict(seen)
    if operator is None:
        return data
    return {
        key: {name: part for name, part in value.items() if name == operator} if isinstance(value, dict) else value
        for key, value in data.items()
    }


QUIET_S = 15.0
"""Without messages a comment is sent this often, because proxies would cut a silent connection."""
_EXAMPLE = 'id: 7\nevent: decision\ndata: {"job":"clicks","at_s":1700000000.0,"decision":{"policy":"autopilot"}}\n\n'


def events_router(service: Service) -> APIRouter:
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
            **problems(400, 503),
        },
    )
    async def stream(
        job: Annotated[str | None, Query(description="Only of this job.")] = None,
        since: Annotated[int | None, Query(ge=0, description="After the message of this number first.")] = None,
        last_event_id: Annotated[
            str | None, Header(description="As browsers send it when they come back.", max_length=200)
        ] = None,
        once: Annotated[bool, Query(description="End after what there is already.")] = False,
    ) -> StreamingResponse:
        service.hub.refuse_if_full()
        after = since
        if since is None and last_event_id is not None and re.fullmatch(r"[0-9]{1,18}", last_event_id):
            after = int(last_event_id)
        return StreamingResponse(_lines(service.hub, job, after, once), media_type="text/event-stream")

    return made


async def _lines(hub: Hub, job: str | None, after: int | None, once: bool) -> AsyncIterator[str]:
    with hub.listening() as listener:
        newest = hub.number if after is None else after
        for message in hub.since(newest):
            newest = message.number
            if job in (None, message.job):
                yield _frame(message)
        yield ": listening\n\n"
        while not once:
            try:
                received = await listener.next(QUIET_S)
            except EOFError:
                return
            if received is None:
                yield ": nothing new\n\n"
            elif received.number > newest and job in (None, received.job):
                yield _frame(received)


def _frame(message: Message) -> str:
    data = to_json({"job": message.job, "at_s": message.at_s, message.kind: message.data})
    return f"id: {message.number}\nevent: {message.kind}\ndata: {data}\n\n"
