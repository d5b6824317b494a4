"""Authenticates, authorises and limits all requests, and refuses those that another site sends in a user's name.

- Reports need a token of scope ``agent``, changes one of ``operate``, and reading one of ``read`` or ``operate``.
  Without a token, clients on this machine may read if that is open, and only by a name of this machine: a page of
  another site whose name was made to point here is not answered.
- Where the token comes in a cookie, a change must come from a page of this service and carry what only such a page
  contains (``Caller.csrf``), in the header ``X-CSRF-Token`` or in the field ``csrf`` of a form.
- A refusal is one sentence of plain text, which repeats nothing of the request.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse

from headgate.core.errors import JournalError
from headgate.engines.agents.wire import LEADER_HEADER, LONGEST_TEXT, NOT_LEADING
from headgate.service.config.model import AccessRules, is_loopback
from headgate.service.service import Service
from headgate.service.store.tokens import Scope, Token, Tokens

COOKIE = "headgate_token"
"""Holds the token of a browser; no script can read it, and no other site can have it sent."""
REMEMBERED_S = 5.0
"""A token that was revoked is refused after so long at the latest."""
_MOST_REMEMBERED = 10_000
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request; ``csrf`` is what a form must carry if the token came in a cookie."""

    name: str
    scopes: frozenset[Scope] = frozenset()
    csrf: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (scope is Scope.READ and Scope.OPERATE in self.scopes)


NOBODY = Caller("")
READER = Caller("", frozenset({Scope.READ}))
"""A client without a token on this machine, where reading is open."""


def csrf_of(secret: str) -> str:
    """Return what a form must carry to be accepted; it cannot be computed without the token itself."""
    return hmac.new(secret.encode("utf-8", errors="surrogatepass"), b"headgate form", hashlib.sha256).hexdigest()


class Callers:
    """Identifies callers, and remembers them for a moment, because agents report often."""

    def __init__(self, tokens: Tokens, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now = now
        self._known: dict[str, tuple[float, Token | None]] = {}

    def of_headers(self, headers: dict[bytes, bytes]) -> Caller | None:
        """Return the caller; ``None`` for an unknown token, ``NOBODY`` without a token."""
        token_header = headers.get(b"authorization", b"").decode("latin-1")
        if token_header:
            if not token_header.lower().startswith(_BEARER):
                return None
            return self._caller(token_header[len(_BEARER) :].strip(), in_cookie=False)
        secret = _cookie(headers.get(b"cookie", b"").decode("latin-1"))
        return NOBODY if secret is None else self._caller(secret, in_cookie=True)

    def _caller(self, secret: str, *, in_cookie: bool) -> Caller | None:
        token = self.token(secret)
        if token is None:
            return None
        return Caller(token.name, token.scopes, csrf_of(secret) if in_cookie else None)

    def token(self, secret: str) -> Token | None:
        """Return the token with this secret, if there is one."""
        now_s = self._now()
        seen_s, token = self._known.get(secret, (-REMEMBERED_S, None))
        if now_s - seen_s >= REMEMBERED_S:
            try:
                token = self._tokens.of_secret(secret)
            except JournalError:
                # While the store is away, a token that was valid a moment ago stays valid: agents must not be refused.
                if token is None:
                    raise
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[secret] = (now_s, token)
        return token


def _cookie(text: str) -> str | None:
    if COOKIE not in text:
        return None
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


BURST_S = 2.0
"""The capacity of a bucket, as seconds of its refill."""
MOST_CALLERS = 20_000
"""Beyond this the callers idle for longest are forgotten; their buckets are full by then."""


class RateLimit:
    """
    >>> limit = RateLimit(1, lambda: 0.0)
    >>> [limit.admits("a") for _ in range(3)], limit.admits("b")
    ([True, True, False], True)
    """

    def __init__(self, per_s: float, now: Callable[[], float]) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, caller: str) -> bool:
        """Whether one more request may be made now."""
        now_s = self._now()
        left, seen_s = self._buckets.pop(caller, (self._most, now_s))
        left = min(self._most, left + (now_s - seen_s) * self._per_s)
        admitted = left >= 1.0
        self._buckets[caller] = (left - 1.0 if admitted else left, now_s)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return admitted


Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login", "/logout"})
"""Open to all: health probes have no token, and the sign-in page is for visitors without one."""
OPEN_FOLDERS = ("/static/",)
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CALLER = "headgate.caller"
"""The key of the caller in the scope of a request."""
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip")
_FORM = b"application/x-www-form-urlencoded"


class Refused(Exception):
    """A request that is not let through."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Shown: TypeAlias = Callable[[MutableMapping[str, Any], Refused], App | None]
"""Returns the page for browsers in place of a sentence, or ``None`` for the sentence."""


class Gate:
    """Passes a request on to the application only if its caller may make it."""

    def __init__(
        self, app: App, callers: Callers, rules: Callable[[], AccessRules], now: Callable[[], float], shown: Shown
    ) -> None:
        self._app = app
        self._shown = shown
        self._callers = callers
        self._rules = rules
        self._now = now
        self._limit: tuple[int, RateLimit] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        body = _Body(receive)
        try:
            scope[CALLER] = await self._admitted(scope, headers, body)
            _refuse_long(headers)
        except Refused as refused:
            answer = self._shown(scope, refused) or _sentence(refused)
            await answer(scope, receive, send)
            return
        except JournalError:
            away = Refused(503, "tokens cannot be checked just now; try again in a moment.")
            await _sentence(away)(scope, receive, send)
            return
        try:
            await self._app(scope, body.receive, send)
        except _TooLong:
            await _sentence(Refused(413, _LONG))(scope, receive, send)

    async def _admitted(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes], body: _Body) -> Caller:
        path, method = scope["path"], scope["method"]
        caller = self._callers.of_headers(headers)
        is_report = path.endswith("/reports")
        self._limit_rate(caller, scope, path if is_report else "")
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
            return caller or NOBODY
        if caller is None:
            raise Refused(401, "a valid token is needed.")
        needed = Scope.AGENT if is_report else Scope.READ if method in SAFE else Scope.OPERATE
        if caller is NOBODY and needed is Scope.READ and self._is_open_to(scope, headers):
            caller = READER
        if not caller.may(needed):
            if not caller.name:
                raise Refused(401, f"a valid token of scope {needed} is needed.")
            raise Refused(403, f"token {caller.name!r} may not do this: it needs the scope {needed}.")
        if caller.csrf is not None and method not in SAFE:
            await self._require_own_page(scope, headers, caller.csrf, body)
        return caller

    def _limit_rate(self, caller: Caller | None, scope: MutableMapping[str, Any], of: str) -> None:
        per_s = self._rules().requests_per_s
        if self._limit is None or self._limit[0] != per_s:
            self._limit = (per_s, RateLimit(per_s, self._now))
        # Agents may share a token, so each operator counts for itself.
        known = caller.name if caller is not None and caller.name else f"from {_address(scope)}"
        if not self._limit[1].admits(f"{known} {of}"):
            raise Refused(429, f"more than {per_s} requests per second are not answered; try again in a moment.")

    def _is_open_to(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> bool:
        if not self._rules().open_reading or any(name in headers for name in _FORWARDED):
            return False
        host = urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname or ""
        return is_loopback(_address(scope)) and (is_loopback(host) or host in self._rules().hosts)

    async def _require_own_page(
        self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes], csrf: str, body: _Body
    ) -> None:
        source = headers.get(b"origin") or headers.get(b"referer") or b""
        origin = urlsplit(source.decode("latin-1"))
        if (origin.scheme, origin.netloc) != (scope["scheme"], headers.get(b"host", b"").decode("latin-1")):
            raise Refused(403, "a change by a browser must come from a page of this service.")
        csrf_sent = headers.get(b"x-csrf-token", b"").decode("latin-1")
        if not csrf_sent and headers.get(b"content-type", b"").startswith(_FORM):
            _refuse_long(headers)
            fields = parse_qs((await body.whole()).decode("utf-8", errors="replace"))
            csrf_sent = fields.get("csrf", [""])[0]
        if not hmac.compare_digest(csrf_sent.encode(), csrf.encode()):
            raise Refused(403, "this form is not one of this service, or of another sign-in; load its page again.")


_LONG = f"a message may have {LONGEST_TEXT} bytes at most."


class _TooLong(Exception):
    pass


class _Body:
    """The body of a request, with a limit on its length; once read whole, it can be received again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._length = 0
        self._read: bytes | None = None

    async def receive(self) -> Message:
        if self._read is not None:
            text, self._read = self._read, None
            return {"type": "http.request", "body": text, "more_body": False}
        message = await self._receive()
        self._length += len(message.get("body", b""))
        if self._length > LONGEST_TEXT:
            raise _TooLong
        return message

    async def whole(self) -> bytes:
        parts = []
        while True:
            try:
                message = await self.receive()
            except _TooLong:
                raise Refused(413, _LONG) from None
            parts.append(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        self._read = b"".join(parts)
        return self._read


def _refuse_long(headers: dict[bytes, bytes]) -> None:
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > LONGEST_TEXT:
        raise Refused(413, _LONG)


def _address(scope: MutableMapping[str, Any]) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}


def _sentence(refused: Refused) -> App:
    return PlainTextResponse(str(refused), refused.status, _HEADERS.get(refused.status))


ALWAYS = OPEN_PATHS | {"/metrics"}


StandingBy: TypeAlias = Callable[[MutableMapping[str, Any], str, str], App | None]
"""The page for a browser, given the reason and the address of the leader; ``None``: a sentence, as for programs."""


class LeaderOnly:
    """Passes requests on only while the service leads; otherwise answers why not, and where the leader is."""

    def __init__(self, app: App, service: Service, shown: StandingBy) -> None:
        self._app = app
        self._service = service
        self._shown = shown

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path, why = scope.get("path", ""), self._service.standing_by
        if scope["type"] != "http" or not why or path in ALWAYS or path.startswith(OPEN_FOLDERS):
            await self._app(scope, receive, send)
            return
        url = self._service.leader_url
        headers = {LEADER_HEADER: url} if url else None
        answer = self._shown(scope, why, url) or PlainTextResponse(f"this service {why}.", NOT_LEADING, headers)
        await answer(scope, receive, send)
