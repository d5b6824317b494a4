"""Policies and their settings: all there are, and what decides for a job."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headgate.core.types import JSON
from headgate.policies.frame.base import AnyPolicy, guards_for, policy_class, policy_names
from headgate.policies.frame.settings import describe_settings
from headgate.service.api.answers import problems, told
from headgate.service.api.models import JobPolicyView, PolicyView
from headgate.service.jobs import Job
from headgate.service.service import Service


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["policies"])

    @made.get("/v1/policies", response_model=list[PolicyView], responses=problems(), summary="All policies")
    def policies() -> Response:
        return told([_described(policy_class(name)) for name in policy_names()])

    @made.get(
        "/v1/jobs/{job}/policy", response_model=JobPolicyView, responses=problems(404), summary="What decides for it"
    )
    def job_policy(job: str) -> Response:
        return told(policy_view(service.fleet.job(job)))

    return made


def policy_view(job: Job) -> dict[str, JSON]:
    spec = job.spec
    made = spec.make_policy()
    return {
        "policy": spec.policy,
        "settings": made.settings.model_dump(mode="json"),
        "guards": guards_for(made, spec.guards).model_dump(mode="json"),
        "shadows": list(spec.shadows),
    }


def _described(kind: type[AnyPolicy]) -> dict[str, JSON]:
    return {"name": kind.name, "summary": kind.summary, "settings": describe_settings(kind.Settings)}
