"""The page with a job's forms, and the page that asks for confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from headgate.core.errors import HeadgateError, InputError, UnknownNameError
from headgate.policies.frame.base import policy_names
from headgate.service.api.answers import caller_of, who_of
from headgate.service.jobs import ServedJob
from headgate.service.pages.forms import change_of
from headgate.service.pages.rendering import Renderer
from headgate.service.pages.sign_in import form_fields
from headgate.service.pages.views.overview import change_text
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind
from headgate.service.store.tokens import Scope

CSRF, FORM, STEP, DO = "csrf", "form", "step", "do"
DONE = {
    "pause": "Scaling is paused.",
    "resume": "Scaling continues.",
    "size": "The size is forced; it is wanted with the next decision.",
    "mode": "The mode is changed.",
    "period": "The period is saved.",
    "policy": "The policy is changed; it decides from now on.",
    "settings": "The settings are changed.",
    "bounds": "The bounds are changed.",
    "objective": "The objective is changed.",
    "rules": "The rules are in force.",
    "revert": "The change is taken back.",
}
"""Shown after a form was carried out."""


def router(service: Service, renderer: Renderer) -> APIRouter:
    made = APIRouter(include_in_schema=False)

    def forms(request: Request, job: ServedJob, fields: Mapping[str, str], problem: str = "") -> Response:
        may = caller_of(request).may(Scope.OPERATE)
        return renderer.page(
            request,
            "change.html",
            status=400 if problem else 200,
            at="jobs",
            job=job,
            may=may,
            fields=fields,
            problem=problem,
            policies=policy_names(),
            operators=job.operators,
            settings="\n".join(f"{name} = {value}" for name, value in job.spec.settings.items() if name != "rules"),
            rules=job.spec.settings.get("rules", ""),
            changes=[(change, change_text(change)) for change in job.changes],
            is_paused=any(change.kind is ChangeKind.PAUSE for change in job.changes),
        )

    @made.get("/jobs/{name}/change")
    def change(request: Request, name: str) -> Response:
        try:
            return forms(request, service.fleet.job(name), {})
        except UnknownNameError as error:
            return renderer.problem(request, 404, "Not here", str(error))

    def submit(request: Request, name: str, fields: Mapping[str, str]) -> Response:
        """Preview the change, or make it."""
        try:
            job = service.fleet.job(name)
        except UnknownNameError as error:
            return renderer.problem(request, 404, "Not here", str(error))
        form, inner = fields.get(FORM, ""), {key: value for key, value in fields.items() if key not in (CSRF, STEP)}
        try:
            proposed = change_of(service, job, form, inner)
            proposed.check()
            if fields.get(STEP) != DO:
                return renderer.page(
                    request,
                    "confirm.html",
                    at="jobs",
                    job=job,
                    change=proposed,
                    fields=inner,
                    why=fields.get("why", ""),
                )
            proposed.carry_out(who_of(request))
        except InputError as error:
            return forms(request, job, inner, str(error))
        except HeadgateError as error:
            return renderer.problem(request, 503, "Not possible just now", str(error))
        return RedirectResponse(f"/jobs/{quote(name)}?done={quote(form)}", 303)

    @made.post("/jobs/{name}/change")
    async def changed(request: Request, name: str) -> Response:
        fields = form_fields(await request.body())
        return await run_in_threadpool(submit, request, name, fields)

    return made
