"""Whether the service lives, and whether it is ready: for those who look after it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headgate.service.service import Service

OVERDUE_S = 30.0
"""A job that was due so long ago and was not decided on: the loop is alive and does nothing."""


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["health"])

    @made.get("/healthz", summary="Whether it lives and does its work", responses=_responses("It does nothing."))
    def healthz() -> Response:
        """503 when nothing steps the jobs, or a job waits for its decision for far too long."""
        return _told(problem_of(service))

    @made.get("/readyz", summary="Whether it can be asked", responses=_responses("It cannot be asked yet."))
    def readyz() -> Response:
        """503 while it cannot answer agents: before it runs, when its store is away, and while another leads."""
        why = service.standing_by
        return _told(problem_of(service) or (why and f"it {why}.") or service.store_problem())

    return made


def problem_of(service: Service) -> str:
    """What is wrong with the loop; empty where nothing is."""
    if not service.scheduler.is_alive:
        return "nothing steps the jobs."
    if service.standby is not None and not service.standby.is_alive:
        return "nothing looks whether it leads."
    overdue_s = service.scheduler.overdue_s()
    if overdue_s > OVERDUE_S:
        return f"a job has waited {overdue_s:.0f} s for its decision."
    return ""


def _told(problem: str) -> Response:
    return Response(problem or "ok", 503 if problem else 200, media_type="text/plain")


def _responses(problem: str) -> dict[int | str, dict[str, object]]:
    plain = {"text/plain": {"schema": {"type": "string"}}}
    return {
        200: {"description": "It does.", "content": {"text/plain": {"schema": {"type": "string"}, "example": "ok"}}},
        503: {"description": problem, "content": plain},
    }
