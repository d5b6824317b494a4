"""The service itself, and the log of what was changed in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headgate._version import __version__
from headgate.core.quotas import QuotaGroup
from headgate.core.types import JSON
from headgate.service.api.answers import json_response, problems
from headgate.service.api.history import LastQuery
from headgate.service.api.models import AuditView, ServiceView
from headgate.service.service import Service


def about_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["service"])

    @made.get("/v1/service", response_model=ServiceView, responses=problems(), summary="The service itself")
    def about() -> Response:
        config = service.config
        return json_response(
            {
                "version": __version__,
                "started_s": service.started_s,
                "now_s": service.clock.now(),
                "jobs": len(service.fleet),
                "file": None if config.file is None else str(config.file),
                "file_problem": service.config_problem or None,
                "groups": [_group_view(group) for group in config.groups],
                "loop_late_s": service.scheduler.late_s,
            }
        )

    @made.get("/v1/audit", response_model=AuditView, responses=problems(503), summary="Who changed what, and why")
    def audit(
        job: Annotated[str | None, Query(description="Only of this job.")] = None,
        before: Annotated[int | None, Query(ge=1, le=2**62, description="Those before this number.")] = None,
        last: LastQuery = 100,
    ) -> Response:
        entries = service.store.audit.entries(job=job, before=before, last=last)
        return json_response({"entries": [asdict(entry) for entry in entries]})

    return made


def _group_view(group: QuotaGroup) -> dict[str, JSON]:
    return {"name": group.name, **asdict(group.quota), "priority": group.priority}


LEADERLESS_S = 120.0
"""Taking on a thousand jobs from the journal takes a minute."""
OVERDUE_S = 30.0
"""A job that was due so long ago and was not decided on: the loop is alive and does nothing."""


def health_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["health"])

    @made.get("/healthz", summary="Whether it lives and does its work", responses=_responses("It does nothing."))
    async def healthz() -> Response:
        """503 when nothing steps the jobs, a job waits for its decision for far too long, or nobody leads."""
        away = "" if service.standby is None else service.standby.problem
        return _status(problem_of(service), f"ok, but nobody can lead: {away}" if away else "ok")

    @made.get("/readyz", summary="Whether it is ready", responses=_responses("It is not ready yet."))
    def readyz() -> Response:
        """503 while it cannot answer agents: before it runs, when its store is away, and while another leads."""
        why = service.standing_by
        return _status(problem_of(service) or (why and f"it {why}.") or service.store_problem())

    return made


def problem_of(service: Service) -> str:
    """What is wrong with the loop; empty where nothing is."""
    if not service.scheduler.is_alive:
        return "nothing steps the jobs."
    if service.standby is not None and not service.standby.is_alive:
        return "nothing checks whether it leads."
    if service.standby is not None and service.standby.leaderless_s > LEADERLESS_S:
        return f"nobody has led for {service.standby.leaderless_s:.0f} s, although the store can be reached."
    overdue_s = service.scheduler.overdue_s()
    if overdue_s > OVERDUE_S:
        return f"a job has waited {overdue_s:.0f} s for its decision."
    return ""


def _status(problem: str, well: str = "ok") -> Response:
    return Response(problem or well, 503 if problem else 200, media_type="text/plain")


def _responses(problem: str) -> dict[int | str, dict[str, object]]:
    plain = {"text/plain": {"schema": {"type": "string"}}}
    return {
        200: {"description": "It does.", "content": {"text/plain": {"schema": {"type": "string"}, "example": "ok"}}},
        503: {"description": problem, "content": plain},
    }


_PAGE = {"text/plain": {"schema": {"type": "string"}, "example": 'headgate_ticks_total{job="clicks"} 360.0'}}


def metrics_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["health"])

    @made.get(
        "/metrics",
        summary="Figures for Prometheus",
        responses={200: {"description": "In Prometheus' format.", "content": _PAGE}, **problems()},
    )
    def metrics(request: Request) -> Response:
        page, content_type = service.figures.exposition.text(request.headers.get("Accept"))
        return Response(page, media_type=content_type)

    return made
