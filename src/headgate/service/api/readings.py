"""What was seen of a job, from its journal."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from headgate.core.types import JSON, Observation
from headgate.journal.codec import observation_to_dict
from headgate.service.api.answers import problems, told
from headgate.service.api.models import ReadingsView
from headgate.service.service import Service

MOST = 5000
LastQuery = Annotated[int, Query(ge=1, le=MOST, description="At most so many, the newest of them.", examples=[100])]
SinceQuery = Annotated[
    float | None, Query(ge=0, le=1e12, description="Only those at or after this moment, in seconds since the epoch.")
]


def router(service: Service) -> APIRouter:
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
            seen = [one for one in seen if one.at_s >= since_s]
        return told({"operator": operator, "readings": [_told(one, operator) for one in seen[-last:]]})

    return made


def _told(seen: Observation, operator: str | None) -> JSON:
    data = observation_to_dict(seen)
    if operator is None:
        return data
    return {
        key: {name: one for name, one in value.items() if name == operator} if isinstance(value, dict) else value
        for key, value in data.items()
    }
