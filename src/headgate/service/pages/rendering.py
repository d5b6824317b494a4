"""Renders pages from templates, with values in words that are the same on all pages, and serves their static files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from headgate._version import __version__
from headgate.core.types import Instances, Instant
from headgate.core.units import format_duration, plain
from headgate.service.gate import CALLER, NOBODY, Caller

STATIC = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    # Everything comes from this service; pages have no inline scripts or styles.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_FOR_A_YEAR = "public, max-age=31536000, immutable"


@cache
def static(name: str) -> bytes:
    return files("headgate.service.pages").joinpath("static", name).read_bytes()


@cache
def version() -> str:
    """Return a version of the static files, so that browsers can cache them."""
    return hashlib.sha256(b"".join(static(name) for name in STATIC)).hexdigest()[:12]


def static_answer(name: str) -> Response | None:
    """Return a static file; ``None`` if there is none of that name."""
    if name not in STATIC:
        return None
    headers = {"Cache-Control": _FOR_A_YEAR, "X-Content-Type-Options": "nosniff"}
    return Response(static(name), media_type=STATIC[name], headers=headers)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("headgate.service.pages"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class Renderer:
    """Renders pages; ``demo`` is a notice at the top of every page of a demonstration."""

    def __init__(self, demo: str = "") -> None:
        self._demo = demo

    def page(self, request: Request, template: str, *, status: int = 200, **values: object) -> Response:
        """Render a page."""
        defaults: dict[str, object] = {
            "at": "",
            "stream": "",
            "done": "",
            "problem": "",
            "visitor": visitor_of(request),
            "here": here(request),
            "demo": self._demo,
            "version": version(),
            "headgate": __version__,
        }
        html = _templates().get_template(template).render(defaults | values)
        return Response(html, status, HEADERS, media_type="text/html; charset=utf-8")

    def problem(self, request: Request, status: int, title: str, text: str, *, sign_in: bool = False) -> Response:
        """Render a page with the reason why there is no other."""
        return self.page(request, "problem.html", status=status, title=title, text=text, sign_in=sign_in)


def visitor_of(request: Request) -> Caller:
    """Return the visitor of a page; one whom the gate refused is ``NOBODY``."""
    caller = request.scope.get(CALLER, NOBODY)
    assert isinstance(caller, Caller)
    return caller


def here(request: Request) -> str:
    """Return the address of the page itself, to return to."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure with a remark."""

    name: str
    value: str
    more: str = ""
    unit: str = ""
    kind: str = ""
    meter: Markup | None = None


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    href: str
    is_this: bool = False


def rate(per_s: float | None) -> str:
    """
    >>> rate(31.25), rate(None)
    ('31.2/s', '–')
    """
    return UNKNOWN if per_s is None else f"{plain(per_s)}/s"


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def latency(seconds: float | None) -> str:
    """Return a latency, to a tenth of a second.

    >>> latency(0.4321), latency(12.345), latency(None)
    ('432ms', '12.3s', '–')
    """
    if seconds is None:
        return UNKNOWN
    return format_duration(round(seconds, 1) if seconds >= 1 else seconds)


def sizes(instances: Instances | None) -> str:
    """
    >>> sizes(Instances(4, 4, 3)), sizes(Instances(3, 3, 3))
    ('3 of 4', '3')
    """
    if instances is None:
        return UNKNOWN
    return f"{instances.ready}" if not instances.pending else f"{instances.ready} of {instances.planned}"


def clock(at_s: Instant) -> str:
    """Return the time of day.

    >>> clock(1_700_000_000.0)
    '22:13:20'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%S}"


def moment(at_s: Instant) -> str:
    """
    >>> moment(1_700_000_000.0)
    '2023-11-14 22:13:20'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def iso(at_s: Instant) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
