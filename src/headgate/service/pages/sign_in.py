"""Signing in with a token; the browser keeps it in a cookie that neither scripts nor other sites can use."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from headgate.core.errors import InputError
from headgate.service.gate import COOKIE, TokenTable
from headgate.service.pages.rendering import Renderer

LASTS_S = 12 * 3600
"""A browser forgets the token after a working day."""
MOST_FIELDS = 50


def router(tokens: TokenTable, renderer: Renderer) -> APIRouter:
    made = APIRouter(include_in_schema=False)

    @made.get("/login")
    def sign_in(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name of the parameter
        return renderer.page(request, "login.html", next=own_path(next))

    @made.post("/login")
    async def signed_in(request: Request) -> Response:
        fields = form_fields(await request.body())
        target = own_path(fields.get("next", "/"))
        if not is_own_page(request):
            problem = "Signing in must be done on a page of this service."
            return renderer.page(request, "login.html", status=403, next=target, problem=problem)
        secret = fields.get("token", "").strip()
        if await tokens.token(secret) is None:
            problem = "That token is not known here, or was revoked."
            return renderer.page(request, "login.html", status=401, next=target, problem=problem)
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            COOKIE,
            secret,
            max_age=LASTS_S,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    @made.post("/logout")
    async def sign_out(request: Request) -> Response:
        if not is_own_page(request):
            return renderer.problem(request, 403, "Not allowed", "Signing out must be done on a page of this service.")
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    return made


def own_path(path: str) -> str:
    """Return the path if it belongs to this service, else its first page, against redirects to other sites.

    >>> own_path("/jobs/clicks?span=1h"), own_path("//example.org/"), own_path("https://example.org")
    ('/jobs/clicks?span=1h', '/', '/')
    """
    parts = urlsplit(path)
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return path if is_own and "\n" not in path and "\r" not in path else "/"


def is_own_page(request: Request) -> bool:
    """Return whether a page of this service sent the form; old browsers do not send the origin."""
    origin = request.headers.get("origin")
    if origin is None:
        return True
    found = urlsplit(origin)
    return (found.scheme, found.netloc) == (request.url.scheme, request.headers.get("host", ""))


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form; of repeated fields the first."""
    text = body.decode("utf-8", errors="replace")
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InputError(
            f"a form with {text.count('&') + 1} fields is not usable; at most {MOST_FIELDS} are."
        ) from error
    return {name: values[0] for name, values in found.items()}
