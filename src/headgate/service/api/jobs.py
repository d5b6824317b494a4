"""Jobs and operators: how they stand, what is asked of them, and what of their budget is left."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headgate.service.api.answers import problems, told
from headgate.service.api.models import BudgetView, JobView, ObjectiveView, OperatorView, StateView
from headgate.service.api.jobs import budget_view, job_view, objective_view, operator_view, state_view
from headgate.service.service import Service


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["jobs"])
    fleet = service.fleet

    @made.get("/v1/jobs", response_model=list[JobView], responses=problems(), summary="All jobs")
    def jobs() -> Response:
        return told([job_view(job) for job in fleet])

    @made.get("/v1/jobs/{job}", response_model=JobView, responses=problems(404), summary="One job")
    def job(job: str) -> Response:
        return told(job_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/state", response_model=StateView, responses=problems(404), summary="Seen and decided last"
    )
    def state(job: str) -> Response:
        return told(state_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/operators", response_model=list[OperatorView], responses=problems(404), summary="Its operators"
    )
    def operators(job: str) -> Response:
        found = fleet.job(job)
        return told([operator_view(found, name) for name in found.operators])

    @made.get(
        "/v1/jobs/{job}/operators/{operator}",
        response_model=OperatorView,
        responses=problems(404),
        summary="One operator",
    )
    def operator(job: str, operator: str) -> Response:
        found = fleet.job(job)
        found.require_operator(operator)
        return told(operator_view(found, operator))

    @made.get(
        "/v1/jobs/{job}/objective", response_model=ObjectiveView, responses=problems(404), summary="What is asked of it"
    )
    def objective(job: str) -> Response:
        return told(objective_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/budget", response_model=BudgetView, responses=problems(404), summary="Its error budget and cost"
    )
    def budget(job: str) -> Response:
        return told(budget_view(fleet.job(job)))

    return made
