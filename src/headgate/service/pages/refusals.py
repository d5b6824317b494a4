"""What somebody is shown whom the gate does not let through: the page to sign in, or why not."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse

from headgate.service.access.callers import COOKIE
from headgate.service.access.gate import SAFE, App, Refused, Shown
from headgate.service.pages.rendering import Renderer, here

_TITLES = {401: "Sign in", 403: "Not allowed", 413: "Too long", 429: "Too many requests"}


def refusals(renderer: Renderer) -> Shown:
    """For pages only: programs are told in a sentence."""

    def shown(scope: MutableMapping[str, Any], refused: Refused) -> App | None:
        request = Request(scope)
        is_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
        if not is_page:
            return None
        if refused.status == 401:
            back = here(request) if request.method in SAFE else request.url.path
            answer = RedirectResponse(f"/login?next={quote(back, safe='')}", 303)
            # One that is not known any more would only be refused again.
            answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
            return answer
        title = _TITLES.get(refused.status, "Not possible")
        return renderer.page(
            request,
            "problem.html",
            status=refused.status,
            title=title,
            told=str(refused),
            sign_in=refused.status == 403,
        )

    return shown
