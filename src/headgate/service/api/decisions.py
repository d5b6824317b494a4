"""What was decided for a job, and why; and what happened to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate.core.types import Role
from headgate.journal.codec import decision_to_dict, event_to_dict
from headgate.service.api.answers import problems, told
from headgate.service.api.models import DecisionsView, EventsView
from headgate.service.api.history import LastQuery, SinceQuery
from headgate.service.service import Service

MOST_READ = 20_000
"""Decisions of some days."""


def router(service: Service) -> APIRouter:
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
        # Of those that are left out nobody knows how many there are; looking back has an end all the same.
        most = last if holds and shadows else MOST_READ
        found = [
            one
            for one in journal.decisions(run=journal.run, since_s=since_s, last=most)
            if (shadows or one.role is not Role.SHADOW) and (holds or not one.is_hold)
        ]
        return told({"decisions": [decision_to_dict(one) for one in found[-last:]]})

    @made.get(
        "/v1/jobs/{job}/events", response_model=EventsView, responses=problems(404, 503), summary="What happened to it"
    )
    def events(job: str, since_s: SinceQuery = None, last: LastQuery = 100) -> Response:
        journal = service.fleet.job(job).journal
        found = journal.events(run=journal.run, since_s=since_s)
        return told({"events": [event_to_dict(one) for one in found[-last:]]})

    return made
