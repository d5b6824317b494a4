"""Pages for refused requests: the page to sign in, or one with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from headgate.engines.agents.wire import LEADER_HEADER
from headgate.service.gate import COOKIE, SAFE, App, Refused, Shown, StandingBy
from headgate.service.pages.rendering import Renderer, here

LOOK_AGAIN_S = 5
_TITLES = {
    400: "Not usable",
    401: "Sign in",
    403: "Not allowed",
    404: "Not here",
    413: "Too long",
    429: "Too many requests",
    503: "Not possible just now",
}
_Handler: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


def standing_by(renderer: Renderer) -> StandingBy:
    """Return the page that says which other service leads, with a link to the same page there."""

    def shown(scope: MutableMapping[str, Any], why: str, leader: str) -> App | None:
        request = Request(scope)
        if not _is_for_people(request):
            return None
        path = here(request) if request.method in SAFE else "/"
        answer = renderer.page(
            request, "standby.html", status=503, why=why, leader=leader, there=f"{leader}{path}" if leader else ""
        )
        # This service may become the leader soon.
        answer.headers["Refresh"] = str(LOOK_AGAIN_S)
        answer.headers[LEADER_HEADER] = leader
        return answer

    return shown


def refusals(renderer: Renderer) -> Shown:
    """Return the page for refused requests of browsers; other clients get plain text."""

    def shown(scope: MutableMapping[str, Any], refused: Refused) -> App | None:
        request = Request(scope)
        if not _is_for_people(request):
            return None
        if refused.status == 401:
            back = here(request) if request.method in SAFE else request.url.path
            answer = RedirectResponse(f"/login?next={quote(back, safe='')}", 303)
            # An unknown token would only be refused again.
            answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
            return answer
        title = _TITLES.get(refused.status, "Not possible")
        return renderer.page(
            request,
            "problem.html",
            status=refused.status,
            title=title,
            text=str(refused),
            sign_in=refused.status == 403,
        )

    return shown


def show_errors_on_pages(api: FastAPI, renderer: Renderer) -> None:
    """Show errors to browsers on a page instead of as plain text."""
    for kind, handler in list(api.exception_handlers.items()):
        api.exception_handlers[kind] = _on_page(renderer, cast("_Handler", handler))


def _on_page(renderer: Renderer, handler: _Handler) -> _Handler:
    async def handle(request: Request, error: Exception) -> Response:
        answer = await handler(request, error)
        if not _is_for_people(request):
            return answer
        title = _TITLES.get(answer.status_code, "Not possible")
        return renderer.problem(request, answer.status_code, title, bytes(answer.body).decode())

    return handle


def _is_for_people(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
