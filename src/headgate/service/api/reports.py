"""Agents report here, and are told what is wanted of them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headgate.engines.agents.wire import reply_to_text, report_from_text
from headgate.service.api.answers import problems
from headgate.service.service import Service

REPORT = {
    "version": 1,
    "agent": "6f1c0c1e5a5b4b8f8a3e5d1f6f0a9b1c",
    "instances": {"planned": 2, "requested": 2, "ready": 2},
    "sample": {"operator": "count", "at_age_s": 0.4, "arrived": 12000, "done": 11900, "late": 0, "backlog": 100},
    "told": 2,
}
REPLY = {"version": 1, "size": 3, "subscriptions": [], "report_every_s": 5.0}


def reports_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["agents"])

    @made.post(
        "/v1/jobs/{job}/operators/{operator}/reports",
        summary="Report for an operator",
        responses={
            200: {
                "description": "What is wanted from now on; a size of null: keep what you have.",
                "content": {"application/json": {"schema": {"type": "object"}, "example": REPLY}},
            },
            **problems(400, 404, 409, 503),
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"type": "object"}, "example": REPORT}},
            }
        },
    )
    async def report(job: str, operator: str, request: Request) -> Response:
        """Sizes, the newest reading and what happened, with ages in place of moments: nobody's clock is believed."""
        text = (await request.body()).decode("utf-8", errors="replace")
        reply = service.fleet.job(job).report(operator, report_from_text(text, service.clock.now()))
        return Response(reply_to_text(reply), media_type="application/json")

    return made
