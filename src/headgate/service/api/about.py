"""The service itself, and the log of what was changed in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate._version import __version__
from headgate.service.api.answers import problems, told
from headgate.service.api.models import AuditView, ServiceView
from headgate.service.api.history import LastQuery
from headgate.service.service import Service


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["service"])

    @made.get("/v1/service", response_model=ServiceView, responses=problems(), summary="The service itself")
    def about() -> Response:
        config = service.config
        return told(
            {
                "version": __version__,
                "started_s": service.started_s,
                "now_s": service.clock.now(),
                "jobs": len(service.fleet),
                "file": None if config.file is None else str(config.file),
                "file_problem": service.config_problem or None,
                "groups": [asdict(group) for group in config.groups],
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
        return told({"entries": [asdict(entry) for entry in entries]})

    return made
