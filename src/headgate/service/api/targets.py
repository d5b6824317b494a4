"""Other policies, settings, rules, bounds and objectives for a job that runs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headgate.service.api.answers import problems, told, who_of
from headgate.service.api.requests import BoundsAsked, ObjectiveAsked, PolicyAsked, RulesAsked, SettingsAsked
from headgate.service.api.models import ChangeView, RulesView
from headgate.service.api.jobs import change_view
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

RULES = "rules"


def router(service: Service) -> APIRouter:
    made = APIRouter(tags=["changes"])
    operations, answers = service.operations, problems(400, 404, 503)

    @made.put("/v1/jobs/{job}/policy", response_model=ChangeView, responses=answers, summary="Another policy")
    def put_policy(job: str, asked: PolicyAsked, request: Request) -> Response:
        body = {"policy": asked.policy, "settings": asked.settings, "guards": asked.guards}
        return told(change_view(operations.put(who_of(request), job, ChangeKind.POLICY, "", body, asked.why)))

    @made.patch("/v1/jobs/{job}/settings", response_model=ChangeView, responses=answers, summary="Other settings")
    def patch_settings(job: str, asked: SettingsAsked, request: Request) -> Response:
        return told(change_view(operations.settings(who_of(request), job, asked.settings, asked.guards, asked.why)))

    @made.get("/v1/jobs/{job}/rules", response_model=RulesView, responses=problems(404), summary="The rules in force")
    def rules(job: str) -> Response:
        spec = service.fleet.job(job).spec
        return told({"rules": spec.settings.get(RULES) if spec.policy == RULES else None})

    @made.put("/v1/jobs/{job}/rules", response_model=ChangeView, responses=answers, summary="Decide by these rules")
    def put_rules(job: str, asked: RulesAsked, request: Request) -> Response:
        body = {"policy": RULES, "settings": {RULES: asked.rules}, "guards": {}}
        return told(change_view(operations.put(who_of(request), job, ChangeKind.POLICY, "", body, asked.why)))

    @made.put(
        "/v1/jobs/{job}/operators/{operator}/bounds",
        response_model=ChangeView,
        responses=answers,
        summary="Other bounds",
    )
    def put_bounds(job: str, operator: str, asked: BoundsAsked, request: Request) -> Response:
        body = {"instances": asked.instances}
        return told(change_view(operations.put(who_of(request), job, ChangeKind.BOUNDS, operator, body, asked.why)))

    @made.put(
        "/v1/jobs/{job}/objective", response_model=ChangeView, responses=answers, summary="Ask something else of it"
    )
    def put_objective(job: str, asked: ObjectiveAsked, request: Request) -> Response:
        body = {"objective": asked.objective}
        return told(change_view(operations.put(who_of(request), job, ChangeKind.OBJECTIVE, "", body, asked.why)))

    return made
