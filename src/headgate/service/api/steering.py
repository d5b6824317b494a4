"""Pausing, resuming, forcing a size, recommending only, and periods of the week."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from headgate.service.api.answers import json_response, problems, who_of
from headgate.service.api.jobs import change_view
from headgate.service.api.models import ChangeView, RulesView
from headgate.service.api.requests import (
    BoundsRequest,
    ModeRequest,
    ObjectiveRequest,
    PauseRequest,
    PeriodRequest,
    PolicyRequest,
    ResumeRequest,
    RevertRequest,
    RulesRequest,
    SettingsRequest,
    SizeRequest,
)
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

PeriodName = Annotated[str, Path(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", examples=["office-hours"])]


def steering_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)

    @made.get(
        "/v1/jobs/{job}/changes", response_model=list[ChangeView], responses=problems(404), summary="Changes in force"
    )
    def changes(job: str) -> Response:
        return json_response([change_view(change) for change in service.fleet.job(job).changes])

    @made.put("/v1/jobs/{job}/pause", response_model=ChangeView, responses=answers, summary="Pause scaling")
    def pause(job: str, wanted: PauseRequest, request: Request) -> Response:
        body = {"direction": wanted.direction}
        change = operations.put(
            who_of(request), job, ChangeKind.PAUSE, wanted.operator, body, wanted.why, seconds(wanted.lasts)
        )
        return json_response(change_view(change))

    @made.post(
        "/v1/jobs/{job}/resume", response_model=list[ChangeView], responses=answers, summary="End pauses; gives them"
    )
    def resume(job: str, wanted: ResumeRequest, request: Request) -> Response:
        ended = operations.resume(who_of(request), job, wanted.operator, wanted.why)
        return json_response([change_view(change) for change in ended])

    @made.put(
        "/v1/jobs/{job}/operators/{operator}/size",
        response_model=ChangeView,
        responses=answers,
        summary="Force a size for a time",
    )
    def size(job: str, operator: str, wanted: SizeRequest, request: Request) -> Response:
        body = {"size": wanted.size}
        change = operations.put(
            who_of(request), job, ChangeKind.SIZE, operator, body, wanted.why, seconds(wanted.lasts)
        )
        return json_response(change_view(change))

    @made.put("/v1/jobs/{job}/mode", response_model=ChangeView, responses=answers, summary="Act, or recommend only")
    def mode(job: str, wanted: ModeRequest, request: Request) -> Response:
        body = {"mode": wanted.mode}
        change = operations.put(who_of(request), job, ChangeKind.MODE, "", body, wanted.why, seconds(wanted.lasts))
        return json_response(change_view(change))

    @made.put(
        "/v1/jobs/{job}/periods/{period}",
        response_model=ChangeView,
        responses=answers,
        summary="A period of the week with forbidden scaling, or with sizes of its own",
    )
    def period(job: str, period: PeriodName, wanted: PeriodRequest, request: Request) -> Response:
        body = wanted.model_dump(exclude={"why"})
        return json_response(
            change_view(operations.put(who_of(request), job, ChangeKind.PERIOD, period, body, wanted.why))
        )

    @made.post("/v1/jobs/{job}/revert", response_model=ChangeView, responses=answers, summary="Take a change back")
    def revert(job: str, wanted: RevertRequest, request: Request) -> Response:
        """What the file says holds again."""
        change = operations.revert(who_of(request), job, ChangeKind(wanted.kind), wanted.name, wanted.why)
        return json_response(change_view(change))

    return made


def seconds(lasts: str | float | None) -> float | None:
    """A duration that was checked when it was read."""
    return None if lasts is None else float(lasts)


RULES = "rules"


def targets_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)

    @made.put("/v1/jobs/{job}/policy", response_model=ChangeView, responses=answers, summary="Another policy")
    def put_policy(job: str, wanted: PolicyRequest, request: Request) -> Response:
        body = {"policy": wanted.policy, "settings": wanted.settings, "guards": wanted.guards}
        return json_response(change_view(operations.put(who_of(request), job, ChangeKind.POLICY, "", body, wanted.why)))

    @made.patch("/v1/jobs/{job}/settings", response_model=ChangeView, responses=answers, summary="Other settings")
    def patch_settings(job: str, wanted: SettingsRequest, request: Request) -> Response:
        return json_response(
            change_view(operations.settings(who_of(request), job, wanted.settings, wanted.guards, wanted.why))
        )

    @made.get("/v1/jobs/{job}/rules", response_model=RulesView, responses=problems(404), summary="The rules in force")
    def rules(job: str) -> Response:
        spec = service.fleet.job(job).spec
        return json_response({"rules": spec.settings.get(RULES) if spec.policy == RULES else None})

    @made.put("/v1/jobs/{job}/rules", response_model=ChangeView, responses=answers, summary="Decide by these rules")
    def put_rules(job: str, wanted: RulesRequest, request: Request) -> Response:
        body = {"policy": RULES, "settings": {RULES: wanted.rules}, "guards": {}}
        return json_response(change_view(operations.put(who_of(request), job, ChangeKind.POLICY, "", body, wanted.why)))

    @made.put(
        "/v1/jobs/{job}/operators/{operator}/bounds",
        response_model=ChangeView,
        responses=answers,
        summary="Other bounds",
    )
    def put_bounds(job: str, operator: str, wanted: BoundsRequest, request: Request) -> Response:
        body = {"instances": wanted.instances}
        return json_response(
            change_view(operations.put(who_of(request), job, ChangeKind.BOUNDS, operator, body, wanted.why))
        )

    @made.put(
        "/v1/jobs/{job}/objective", response_model=ChangeView, responses=answers, summary="Ask something else of it"
    )
    def put_objective(job: str, wanted: ObjectiveRequest, request: Request) -> Response:
        body = {"objective": wanted.objective}
        return json_response(
            change_view(operations.put(who_of(request), job, ChangeKind.OBJECTIVE, "", body, wanted.why))
        )

    return made
