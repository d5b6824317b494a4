"""Pausing, resuming, forcing a size, recommending only, and periods of the week."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from headgate.service.api.answers import problems, told, who_of
from headgate.service.api.requests import ModeAsked, PauseAsked, PeriodAsked, ResumeAsked, RevertAsked, SizeAsked
from headgate.service.api.models import ChangeView
from headgate.service.api.jobs import change_view
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

PeriodName = Annotated[str, Path(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", examples=["office-hours"])]


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)

    @made.get(
        "/v1/jobs/{job}/changes", response_model=list[ChangeView], responses=problems(404), summary="Changes in force"
    )
    def changes(job: str) -> Response:
        return told([change_view(one) for one in service.fleet.job(job).changes])

    @made.put("/v1/jobs/{job}/pause", response_model=ChangeView, responses=answers, summary="Pause scaling")
    def pause(job: str, asked: PauseAsked, request: Request) -> Response:
        body = {"direction": asked.direction}
        change = operations.put(
            who_of(request), job, ChangeKind.PAUSE, asked.operator, body, asked.why, seconds(asked.lasts)
        )
        return told(change_view(change))

    @made.post(
        "/v1/jobs/{job}/resume", response_model=list[ChangeView], responses=answers, summary="End pauses; gives them"
    )
    def resume(job: str, asked: ResumeAsked, request: Request) -> Response:
        ended = operations.resume(who_of(request), job, asked.operator, asked.why)
        return told([change_view(one) for one in ended])

    @made.put(
        "/v1/jobs/{job}/operators/{operator}/size",
        response_model=ChangeView,
        responses=answers,
        summary="Force a size for a time",
    )
    def size(job: str, operator: str, asked: SizeAsked, request: Request) -> Response:
        body = {"size": asked.size}
        change = operations.put(who_of(request), job, ChangeKind.SIZE, operator, body, asked.why, seconds(asked.lasts))
        return told(change_view(change))

    @made.put("/v1/jobs/{job}/mode", response_model=ChangeView, responses=answers, summary="Act, or recommend only")
    def mode(job: str, asked: ModeAsked, request: Request) -> Response:
        body = {"mode": asked.mode}
        change = operations.put(who_of(request), job, ChangeKind.MODE, "", body, asked.why, seconds(asked.lasts))
        return told(change_view(change))

    @made.put(
        "/v1/jobs/{job}/periods/{period}",
        response_model=ChangeView,
        responses=answers,
        summary="A period of the week with forbidden scaling, or with sizes of its own",
    )
    def period(job: str, period: PeriodName, asked: PeriodAsked, request: Request) -> Response:
        body = asked.model_dump(exclude={"why"})
        return told(change_view(operations.put(who_of(request), job, ChangeKind.PERIOD, period, body, asked.why)))

    @made.post("/v1/jobs/{job}/revert", response_model=ChangeView, responses=answers, summary="Take a change back")
    def revert(job: str, asked: RevertAsked, request: Request) -> Response:
        """What the file says holds again."""
        change = operations.revert(who_of(request), job, ChangeKind(asked.kind), asked.name, asked.why)
        return told(change_view(change))

    return made


def seconds(lasts: str | float | None) -> float | None:
    """A duration that was checked when it was read."""
    return None if lasts is None else float(lasts)
