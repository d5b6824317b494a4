"""Pausing, resuming, forcing a size, recommending only, and periods of the week."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s
from headgate.service.api.answers import json_response, problems, who_of
from headgate.service.api.jobs import change_view
from headgate.service.api.models import AuditEntry, ChangeView, RulesView
from headgate.service.operations import RequestedChange
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

RULES = "rules"
MOST_INSTANCES = 1_000_000
LONGEST_S = 366 * 86400.0

Why = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=500),
    Field(description="For those who wonder later.", examples=["a sale begins at noon"]),
]
Scalar = str | bool | int | float
Settings = Annotated[dict[str, Scalar], Field(max_length=100, examples=[{"scale_in_window_s": "2m"}])]
Count = Annotated[int, Field(ge=0, le=MOST_INSTANCES, examples=[3])]
Operator = Annotated[str, Field(max_length=63, description="One operator, or * for all of them.", examples=["*"])]


def _seconds(value: str | float) -> float:
    """How long something is to last."""
    try:
        lasts_s = parse_duration_s(value)
    except InputError as error:
        raise ValueError(str(error)) from error
    if not 0 < lasts_s <= LONGEST_S:
        raise ValueError(f"{value!r} is not allowed; more than nothing and at most a year is")
    return lasts_s


Lasts = Annotated[str | float, AfterValidator(_seconds), Field(description="Such as 30m.", examples=["30m"])]


class ChangeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    why: Why


class PauseRequest(ChangeRequest):
    direction: Literal["both", "in", "out"] = "both"
    """Pause scaling altogether, only scaling in, or only scaling out."""
    operator: Operator = "*"
    lasts: Lasts | None = None
    """How long; until it is resumed where not given."""


class ResumeRequest(ChangeRequest):
    operator: Operator = "*"


class SizeRequest(ChangeRequest):
    size: Count
    lasts: Lasts
    """How long the size is forced; then the policy decides again."""


class ModeRequest(ChangeRequest):
    mode: Literal["act", "recommend"]
    lasts: Lasts | None = None


class PeriodRequest(ChangeRequest):
    """What holds in a period of the week: forbidden scaling, or sizes."""

    operator: Operator = "*"
    forbid: Literal["scale in", "any scaling"] | None = None
    at_least: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    at_most: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    during: Annotated[list[str], Field(max_length=50, examples=[["* 8-17 * * mon-fri"]])] = []
    """In the manner of cron: minute, hour, day of the month, month, day of the week; always, where there is none."""
    time_zone: Annotated[str, Field(max_length=100, examples=["Europe/Berlin"])] = "UTC"


class PolicyRequest(ChangeRequest):
    policy: Annotated[str, Field(max_length=100, examples=["autopilot"])]
    settings: Settings = {}
    guards: Settings = {}


class SettingsRequest(ChangeRequest):
    """Only those that are named are changed."""

    settings: Settings = {}
    guards: Settings = {}


class BoundsRequest(ChangeRequest):
    instances: Annotated[list[Count], Field(min_length=2, max_length=2, examples=[[1, 8]])]
    """The fewest and the most."""


class ObjectiveRequest(ChangeRequest):
    objective: Annotated[str, Field(max_length=1000, examples=["latency p95 < 5s"])]


class RulesRequest(ChangeRequest):
    rules: Annotated[str, Field(max_length=200_000, examples=["version: 1\nrules: []\n"])]
    """A rule file, as YAML."""

    @property
    def as_policy(self) -> PolicyRequest:
        return PolicyRequest(why=self.why, policy=RULES, settings={RULES: self.rules})


class RevertRequest(ChangeRequest):
    kind: Literal["pause", "size", "mode", "period", "policy", "bounds", "objective"]
    name: Annotated[str, Field(max_length=200, examples=["count"])] = ""
    """Of the operator or the period; empty where there can be one of its kind only."""


PeriodName = Annotated[str, Path(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", examples=["office-hours"])]


def steering_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)
    put = partial(_put, service)

    @made.get(
        "/v1/jobs/{job}/changes", response_model=list[ChangeView], responses=problems(404), summary="Changes in force"
    )
    def changes(job: str) -> Response:
        return json_response([change_view(change) for change in service.fleet.job(job).changes])

    @made.put("/v1/jobs/{job}/pause", response_model=ChangeView, responses=answers, summary="Pause scaling")
    def pause(job: str, wanted: PauseRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.PAUSE, wanted.operator, wanted, "direction")

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
        return put(request, job, ChangeKind.SIZE, operator, wanted)

    @made.post(
        "/v1/jobs/{job}/operators/{operator}/release",
        response_model=AuditEntry,
        responses=answers,
        summary="Let another agent take the place of the present one",
    )
    def release(job: str, operator: str, wanted: ChangeRequest, request: Request) -> Response:
        """Without it, another agent may join only when the present one has left, or has been silent for a while."""
        return json_response(asdict(operations.release(who_of(request), job, operator, wanted.why)))

    @made.put("/v1/jobs/{job}/mode", response_model=ChangeView, responses=answers, summary="Act, or recommend only")
    def mode(job: str, wanted: ModeRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.MODE, "", wanted)

    @made.put(
        "/v1/jobs/{job}/periods/{period}",
        response_model=ChangeView,
        responses=answers,
        summary="A period of the week with forbidden scaling, or with sizes of its own",
    )
    def period(job: str, period: PeriodName, wanted: PeriodRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.PERIOD, period, wanted)

    @made.post("/v1/jobs/{job}/revert", response_model=ChangeView, responses=answers, summary="Take a change back")
    def revert(job: str, wanted: RevertRequest, request: Request) -> Response:
        """What the file says holds again."""
        change = operations.revert(who_of(request), job, ChangeKind(wanted.kind), wanted.name, wanted.why)
        return json_response(change_view(change))

    return made


def _put(
    service: Service, request: Request, job: str, kind: ChangeKind, name: str, wanted: ChangeRequest, *parts: str
) -> Response:
    change = service.operations.put(who_of(request), requested_change(job, kind, name, wanted, *parts))
    return json_response(change_view(change))


def requested_change(job: str, kind: ChangeKind, name: str, wanted: ChangeRequest, *parts: str) -> RequestedChange:
    """Return the change that a request describes, in these parts of its body or in all of it."""
    body = wanted.model_dump(include=set(parts) or None, exclude={"why", "lasts"})
    # A duration was checked when it was read.
    lasts = getattr(wanted, "lasts", None)
    return RequestedChange(job, kind, name, body, wanted.why, None if lasts is None else float(lasts))


def targets_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)
    put = partial(_put, service)

    @made.put("/v1/jobs/{job}/policy", response_model=ChangeView, responses=answers, summary="Another policy")
    def put_policy(job: str, wanted: PolicyRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.POLICY, "", wanted)

    @made.patch("/v1/jobs/{job}/settings", response_model=ChangeView, responses=answers, summary="Other settings")
    def patch_settings(job: str, wanted: SettingsRequest, request: Request) -> Response:
        requested = operations.of_settings(job, wanted.settings, wanted.guards, wanted.why)
        return json_response(change_view(operations.put(who_of(request), requested)))

    @made.get("/v1/jobs/{job}/rules", response_model=RulesView, responses=problems(404), summary="The rules in force")
    def rules(job: str) -> Response:
        spec = service.fleet.job(job).spec
        return json_response({"rules": spec.settings.get(RULES) if spec.policy == RULES else None})

    @made.put("/v1/jobs/{job}/rules", response_model=ChangeView, responses=answers, summary="Decide by these rules")
    def put_rules(job: str, wanted: RulesRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.POLICY, "", wanted.as_policy)

    @made.put(
        "/v1/jobs/{job}/operators/{operator}/bounds",
        response_model=ChangeView,
        responses=answers,
        summary="Other bounds",
    )
    def put_bounds(job: str, operator: str, wanted: BoundsRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.BOUNDS, operator, wanted)

    @made.put("/v1/jobs/{job}/objective", response_model=ChangeView, responses=answers, summary="Another objective")
    def put_objective(job: str, wanted: ObjectiveRequest, request: Request) -> Response:
        return put(request, job, ChangeKind.OBJECTIVE, "", wanted)

    return made
