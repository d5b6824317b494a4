"""The figures of all jobs, as Prometheus reads them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headgate.service.api.answers import problems
from headgate.service.service import Service

_PAGE = {"text/plain": {"schema": {"type": "string"}, "example": 'headgate_ticks_total{job="clicks"} 360.0'}}


def router(service: Service) -> APIRouter:
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
