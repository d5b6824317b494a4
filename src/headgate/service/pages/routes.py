"""The pages of the dashboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import StreamingResponse

from headgate.core.errors import UnknownNameError
from headgate.journal.codec import to_json
from headgate.service.gate import Shown, StandingBy, TokenTable
from headgate.service.pages import changing, sign_in
from headgate.service.pages.refusals import refusals, show_errors_on_pages, standing_by
from headgate.service.pages.rendering import Renderer, iso, moment, static_answer, visitor_of
from headgate.service.pages.views.job_page import FixedSizesOfJobs, job_page
from headgate.service.pages.views.overview import overview
from headgate.service.service import Service
from headgate.service.store.changes import AuditRecord
from headgate.service.store.tokens import Scope

ENTRIES = 100
"""Of the audit log on one page."""
QUIET_S = 15.0
"""Without changes a comment is sent this often, so that no proxy takes the connection for dead."""
RETRY_MS = 2000
LIVE = "/live"
Before = Annotated[int | None, Query(ge=1, le=2**62)]


def add_pages(
    api: FastAPI, service: Service, tokens: TokenTable, demo: str = ""
) -> tuple[list[APIRouter], Shown, StandingBy]:
    """Make the dashboard of a service; ``demo`` is a notice at the top of its pages.

    Returns the routers, and the pages for refused requests, and for requests while another service leads.
    """
    renderer = Renderer(demo)
    show_errors_on_pages(api, renderer)
    routers = [_router(service, renderer), changing.router(service, renderer), sign_in.router(tokens, renderer)]
    return routers, refusals(renderer), standing_by(renderer)


def _router(service: Service, renderer: Renderer) -> APIRouter:
    made, fixed_sizes = APIRouter(include_in_schema=False), FixedSizesOfJobs()

    @made.get("/static/{name}")
    def static_file(name: str) -> Response:
        found = static_answer(name)
        return Response("there is no such file.", 404, media_type="text/plain") if found is None else found

    @made.get("/")
    def jobs(request: Request, q: str = "", page: int = 1) -> Response:
        return renderer.page(request, "jobs.html", at="jobs", stream=LIVE, view=overview(service, q, page))

    @made.get("/jobs/{name}")
    def job(request: Request, name: str, operator: str | None = None, span: str | None = None) -> Response:
        try:
            found = service.fleet.job(name)
            view = job_page(found, operator, span, fixed_sizes.of(found))
        except UnknownNameError as error:
            return renderer.problem(request, 404, "Not here", str(error))
        done = changing.DONE.get(request.query_params.get("done", ""), "")
        events = f"{LIVE}?{urlencode({'job': name})}"
        may = visitor_of(request).may(Scope.OPERATE)
        return renderer.page(request, "job.html", at="jobs", stream=events, view=view, done=done, may=may)

    @made.get("/audit")
    def audit(request: Request, before: Before = None) -> Response:
        return _audit(request, None, before)

    @made.get("/jobs/{name}/history")
    def history(request: Request, name: str, before: Before = None) -> Response:
        try:
            service.fleet.job(name)
        except UnknownNameError as error:
            return renderer.problem(request, 404, "Not here", str(error))
        return _audit(request, name, before)

    @made.get(LIVE)
    async def live(request: Request, job: str = "") -> Response:
        """Notify of changes of one job, or of all."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        service.hub.refuse_if_full()
        return StreamingResponse(notifications(service, job), media_type="text/event-stream", headers=headers)

    def _audit(request: Request, name: str | None, before: int | None) -> Response:
        entries = service.store.audit.entries(job=name, before=before, last=ENTRIES)
        base = "/audit" if name is None else f"/jobs/{quote(name)}/history"
        older = f"{base}?before={entries[0].number}" if len(entries) == ENTRIES else ""
        rows = [_entry_row(entry) for entry in reversed(entries)]
        return renderer.page(request, "audit.html", at="audit", stream=LIVE, entries=rows, job=name or "", older=older)

    return made


def _entry_row(entry: AuditRecord) -> dict[str, str]:
    return {
        "when": moment(entry.at_s),
        "iso": iso(entry.at_s),
        "who": entry.who,
        "job": entry.job,
        "what": entry.what,
        "why": entry.why,
        "before": "" if entry.before is None else to_json(entry.before),
        "after": "" if entry.after is None else to_json(entry.after),
    }


async def notifications(service: Service, job: str) -> AsyncIterator[str]:
    """Yield one event once no change can be missed, and one for each change; the page finds out what it is."""
    with service.hub.listening() as listener:
        yield f"retry: {RETRY_MS}\nevent: listening\ndata: {service.hub.number}\n\n"
        while True:
            try:
                message = await listener.next(QUIET_S)
            except EOFError:
                return
            if message is None:
                yield ": quiet\n\n"
            elif not job or message.job in ("", job):
                yield f"event: change\nid: {message.number}\ndata: {message.kind}\n\n"
