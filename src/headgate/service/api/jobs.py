"""Jobs and operators: their state, their objectives, and what is left of their error budgets."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Request, Response

from headgate.core.types import JSON, Instances
from headgate.engines.agents.wire import reply_to_text, report_from_text
from headgate.journal.codec import decision_to_dict, observation_to_dict, sample_to_dict
from headgate.policies.frame.base import AnyPolicy, guards_for, policy_class, policy_names
from headgate.policies.frame.settings import describe_settings
from headgate.service.api.answers import json_response, problems
from headgate.service.api.models import (
    BudgetView,
    JobPolicyView,
    JobView,
    ObjectiveView,
    OperatorView,
    PolicyView,
    StateView,
)
from headgate.service.jobs import ServedJob
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind, JobChange


def job_view(job: ServedJob) -> dict[str, JSON]:
    """A job in short, with its operators."""
    loop, spec = job.loop, job.spec
    return {
        "name": job.name,
        "state": state_of(job),
        "group": spec.group,
        "mode": str(loop.mode),
        "policy": loop.policy.name,
        "objective": str(spec.end_to_end),
        "interval_s": spec.interval_s,
        "ticks": job.ticks,
        "ticked_s": job.ticked_s,
        "paused": {change.name: change.body["direction"] for change in job.changes if change.kind is ChangeKind.PAUSE},
        "forced": {change.name: change.body["size"] for change in job.changes if change.kind is ChangeKind.SIZE},
        "operators": [operator_view(job, name) for name in job.operators],
        "streams": [list(stream) for stream in spec.streams],
        "shadows": list(spec.shadows),
    }


def state_of(job: ServedJob) -> str:
    """``waiting`` for a first agent, ``running``, ``partial`` where an agent is missing, ``lost`` where all are."""
    joined, reported_s = job.engine.joined, job.engine.last_reports_s
    if len(joined) == len(job.operators):
        return "running"
    if joined:
        return "partial"
    return "lost" if any(at_s is not None for at_s in reported_s.values()) else "waiting"


def operator_view(job: ServedJob, name: str) -> dict[str, JSON]:
    sizing = job.spec.operator(name)
    seen, decided = job.observation, job.decision
    sample = None if seen is None else seen.samples.get(name)
    verdict = None if decided is None else decided.verdicts.get(name)
    return {
        "name": name,
        "joined": name in job.engine.joined,
        "heard_s": job.engine.last_reports_s[name],
        "instances": _sizes(None if seen is None else seen.instances.get(name)),
        "bounds": [sizing.min_instances, sizing.max_instances],
        "price": sizing.price,
        "reading": None if sample is None else sample_to_dict(sample),
        "decided": None
        if verdict is None or decided is None
        else {"at_s": decided.at_s, "target": verdict.target, "code": verdict.code, "reason": verdict.reason},
    }


def _sizes(known: Instances | None) -> JSON:
    if known is None:
        return None
    return {"planned": known.planned, "requested": known.requested, "ready": known.ready, "stale": known.stale}


def state_view(job: ServedJob) -> dict[str, JSON]:
    """What was seen and decided last, in the form of the journal."""
    seen, decided = job.observation, job.decision
    return {
        "ticks": job.ticks,
        "joined": sorted(job.engine.joined),
        "observation": None if seen is None else observation_to_dict(seen),
        "decision": None if decided is None else decision_to_dict(decided),
        **job.extra_state(),
    }


def objective_view(job: ServedJob) -> dict[str, JSON]:
    objective = job.spec.objective
    return {
        "objective": str(job.spec.end_to_end),
        "operators": {name: str(objective.slo_of(name)) for name in job.operators},
        "bounds": {name: list(objective.bounds_of(name, job.spec.topology)) for name in job.operators},
        "prices": objective.prices(job.spec.topology),
    }


def budget_view(job: ServedJob) -> dict[str, JSON]:
    """How the error budget of each operator stands, and what was spent."""
    with job.at_rest() as loop:
        budgets = {name: loop.history.budget(name) for name in job.operators}
        spending = loop.history.spending()
    return {
        "operators": {name: None if budget is None else budget.to_json() for name, budget in budgets.items()},
        "spending": None if spending is None else spending.to_json(),
    }


def change_view(change: JobChange) -> dict[str, JSON]:
    return {
        "job": change.job,
        "kind": str(change.kind),
        "name": change.name,
        "body": change.body,
        "at_s": change.at_s,
        "until_s": change.until_s,
        "who": change.who,
        "why": change.why,
    }


def policies_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["policies"])

    @made.get("/v1/policies", response_model=list[PolicyView], responses=problems(), summary="All policies")
    def policies() -> Response:
        return json_response([_described(policy_class(name)) for name in policy_names()])

    @made.get(
        "/v1/jobs/{job}/policy", response_model=JobPolicyView, responses=problems(404), summary="What decides for it"
    )
    def job_policy(job: str) -> Response:
        return json_response(policy_view(service.fleet.job(job)))

    return made


def policy_view(job: ServedJob) -> dict[str, JSON]:
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


def jobs_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["jobs"])
    fleet = service.fleet

    @made.get("/v1/jobs", response_model=list[JobView], responses=problems(), summary="All jobs")
    def jobs() -> Response:
        return json_response([job_view(job) for job in fleet])

    @made.get("/v1/jobs/{job}", response_model=JobView, responses=problems(404), summary="One job")
    def job(job: str) -> Response:
        return json_response(job_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/state", response_model=StateView, responses=problems(404), summary="Seen and decided last"
    )
    def state(job: str) -> Response:
        return json_response(state_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/operators", response_model=list[OperatorView], responses=problems(404), summary="Its operators"
    )
    def operators(job: str) -> Response:
        found = fleet.job(job)
        return json_response([operator_view(found, name) for name in found.operators])

    @made.get(
        "/v1/jobs/{job}/operators/{operator}",
        response_model=OperatorView,
        responses=problems(404),
        summary="One operator",
    )
    def operator(job: str, operator: str) -> Response:
        found = fleet.job(job)
        found.require_operator(operator)
        return json_response(operator_view(found, operator))

    @made.get(
        "/v1/jobs/{job}/objective", response_model=ObjectiveView, responses=problems(404), summary="Its objective"
    )
    def objective(job: str) -> Response:
        return json_response(objective_view(fleet.job(job)))

    @made.get(
        "/v1/jobs/{job}/budget", response_model=BudgetView, responses=problems(404), summary="Its error budget and cost"
    )
    def budget(job: str) -> Response:
        return json_response(budget_view(fleet.job(job)))

    return made


REPORT = {
    "version": 1,
    "agent": "6f1c0c1e5a5b4b8f8a3e5d1f6f0a9b1c",
    "instances": {"planned": 2, "requested": 2, "ready": 2},
    "sample": {"operator": "count", "at_age_s": 0.4, "arrived": 12000, "done": 11900, "late": 0, "backlog": 100},
    "told": 2,
}
REPLY = {"version": 1, "size": 3, "subscriptions": [], "report_every_s": 5.0}


LARGE = 50_000
"""Characters of a report that is read on another thread."""


def reports_router(service: Service) -> APIRouter:
    made = APIRouter(tags=["agents"])
    large_reports = ThreadPoolExecutor(1, thread_name_prefix="headgate-reports")

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
        """Sizes, the newest reading and events, with ages in place of times: no agent's clock is trusted."""
        text = (await request.body()).decode("utf-8", errors="replace")
        found = service.fleet.job(job)
        found.require_operator(operator)
        if len(text) <= LARGE:
            received = report_from_text(text, service.clock.now())
        else:
            # It takes a tenth of a second to read: one at a time, and other agents are answered meanwhile.
            loop, now_s = asyncio.get_running_loop(), service.clock.now()
            received = await loop.run_in_executor(large_reports, report_from_text, text, now_s)
        reply = found.report(operator, received)
        return Response(reply_to_text(reply), media_type="application/json")

    return made
