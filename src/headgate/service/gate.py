"""Authenticates, authorises and limits all requests, and refuses those that another site sends in a user's name.

- Reports need a token of scope ``agent``, changes one of ``operate``, and reading one of ``read`` or ``operate``.
  What a request is, its route says. A token may be bound to the reports of one job, or of one operator.
  Without a token, clients on this machine may read if that is open, and only by a name of this machine: a page of
  another site whose name was made to point here is not answered.
- Where the token comes in a cookie, a change must come from a page of this service and carry what only such a page
  contains (``Caller.csrf``), in the header ``X-CSRF-Token`` or in the field ``csrf`` of a form.
- A refusal is one sentence of plain text, which repeats nothing of the request.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match

from headgate.core.errors import JournalError
from headgate.engines.agents.wire import LEADER_HEADER, LONGEST_TEXT, NOT_LEADING
from headgate.service.config.model import AccessRules, is_loopback
from headgate.service.service import Service
from headgate.service.store.tokens import Scope, Token, Tokens, digest_of

COOKIE = "headgate_token"
"""Holds the token of a browser; no script can read it, and no other site can have it sent."""
REMEMBERED_S = 5.0
"""A token that was revoked is refused after so long at the latest, while the store answers."""
LOADS_APART_S = 0.1
WAIT_S = 5.0
"""How long a request with an unknown token waits for the store."""
SHORT_WAIT_S = 1.0
"""How long one with a token waits that was valid a moment ago."""
LONGEST_SECRET = 200
"""Longer ones are not looked up; those that are made here have 46 characters."""
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request; ``csrf`` is what a form must carry if the token came in a cookie."""

    name: str
    scopes: frozenset[Scope] = frozenset()
    csrf: str | None = None
    job: str | None = None
    """The only job that it may report for, and ``operator`` the only operator; ``None``: for any."""
    operator: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (scope is Scope.READ and Scope.OPERATE in self.scopes)

    def may_report_for(self, job: str, operator: str) -> bool:
        return self.job in (None, job) and self.operator in (None, operator)


NOBODY = Caller("")
READER = Caller("", frozenset({Scope.READ}))
"""A client without a token on this machine, where reading is open."""


def csrf_of(secret: str) -> str:
    """Return what a form must carry to be accepted; it cannot be computed without the token itself."""
    return hmac.new(secret.encode("utf-8", errors="surrogatepass"), b"headgate form", hashlib.sha256).hexdigest()


class TokenTable:
    """All tokens in memory, loaded again and again by a thread of its own: no request waits long for the database.

    A token that was just made is found, because a secret that is not known has the table loaded again; those loads
    are a tenth of a second apart, however many secrets are tried. While the store is away, or slow, the tokens that
    were valid a moment ago stay valid: agents must not be refused.
    """

    def __init__(self, tokens: Tokens, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now = now
        self._lock = threading.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="headgate-tokens")
        self._loading: Future[None] | None = None
        self._began_s = -LOADS_APART_S
        """When the newest load began, on the monotonic clock."""
        self._known: dict[str, Token] | None = None
        self._known_of_s = 0.0
        """When the load of these began, on the monotonic clock."""
        self._loaded_s = 0.0
        """When they were loaded, on the clock that was given."""

    def known(self, secret: str) -> Token | None:
        """Return a token without waiting for the store."""
        if self._known is None:
            self._load_in_time()
        token = None if self._known is None or len(secret) > LONGEST_SECRET else self._known.get(digest_of(secret))
        return token if token is not None and token.holds_at(self._tokens.now()) else None

    async def token(self, secret: str) -> Token | None:
        """Return the token with this secret, if there is one."""
        if len(secret) > LONGEST_SECRET:
            return None
        token, requested_s = self.known(secret), time.monotonic()
        if token is not None and self._now() - self._loaded_s < REMEMBERED_S:
            return token
        try:
            await self._load(requested_s, within_s=WAIT_S if token is None else SHORT_WAIT_S)
        except JournalError:
            if token is None:
                raise
            return token
        return self.known(secret)

    async def _load(self, after_s: float, within_s: float) -> None:
        """Wait until the tokens were loaded by a query that began after a time; a ``JournalError`` if they were not."""
        while self._known is None or self._known_of_s < after_s:
            loading, wait_s = self._load_in_time()
            if loading is None:
                await asyncio.sleep(wait_s)
                continue
            left_s = self._began_s + within_s - time.monotonic()
            try:
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(loading)), max(0.0, left_s))
            except TimeoutError:
                raise JournalError(f"the store has not answered for {within_s:g} s.") from None

    def _load_in_time(self) -> tuple[Future[None] | None, float]:
        """Return the load that is under way, or how long until the next one may begin."""
        with self._lock:
            if self._loading is None or self._loading.done():
                wait_s = self._began_s + LOADS_APART_S - time.monotonic()
                if wait_s > 0:
                    return None, wait_s
                self._began_s = time.monotonic()
                self._loading = self._loader.submit(self._load_now, self._began_s, self._now())
            return self._loading, 0.0

    def _load_now(self, began_s: float, now_s: float) -> None:
        self._known = self._tokens.by_digest()
        self._known_of_s, self._loaded_s = began_s, now_s


class Callers:
    """Identifies callers by the headers of their requests."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table

    def known(self, headers: dict[bytes, bytes]) -> Caller | None:
        """Return the caller if its token is known already."""
        secret, in_cookie = _secret_of(headers)
        return None if not secret else _caller(self._table.known(secret), secret, in_cookie=in_cookie)

    async def of_headers(self, headers: dict[bytes, bytes]) -> Caller | None:
        """Return the caller; ``None`` for an unknown token, ``NOBODY`` without a token."""
        secret, in_cookie = _secret_of(headers)
        if secret is None:
            return NOBODY
        return None if not secret else _caller(await self._table.token(secret), secret, in_cookie=in_cookie)


def _caller(token: Token | None, secret: str, *, in_cookie: bool) -> Caller | None:
    if token is None:
        return None
    return Caller(token.name, token.scopes, csrf_of(secret) if in_cookie else None, token.job, token.operator)


def _secret_of(headers: dict[bytes, bytes]) -> tuple[str | None, bool]:
    """Return the secret in a request, and whether it came in a cookie; none of another kind than ours is empty."""
    token_header = headers.get(b"authorization", b"").decode("latin-1")
    if token_header:
        is_bearer = token_header.lower().startswith(_BEARER)
        return (token_header[len(_BEARER) :].strip() if is_bearer else ""), False
    return _cookie(headers.get(b"cookie", b"").decode("latin-1")), True


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

PROBES = frozenset({"/healthz", "/readyz"})
"""Not limited either: who floods the service must not have it taken for dead."""
OPEN_PATHS = PROBES | {"/login", "/logout"}
"""Open to all: health probes have no token, and the sign-in page is for visitors without one."""
OPEN_FOLDERS = ("/static/",)
REPORTS_PATH = "/v1/jobs/{job}/operators/{operator}/reports"
"""The only route for agents."""
REFUSED_AFTER_S = 0.5
"""A request without a token that is one too many is answered after so long, which slows down the sender."""
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


@dataclass(frozen=True, slots=True)
class Right:
    """What a request needs, by its route: a scope, and for a report its job and operator."""

    scope: Scope
    job: str = ""
    operator: str = ""


def right_of(routes: Sequence[BaseRoute], scope: MutableMapping[str, Any]) -> Right:
    """Return what a request needs; by the route that answers it, never by the text of its path."""
    for route in routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            if getattr(route, "path", "") == REPORTS_PATH:
                parts = found["path_params"]
                return Right(Scope.AGENT, parts["job"], parts["operator"])
            break
    return Right(Scope.READ if scope["method"] in SAFE else Scope.OPERATE)


class Gate:
    """Passes a request on to the application only if its caller may make it."""

    def __init__(
        self,
        app: App,
        callers: Callers,
        rules: Callable[[], AccessRules],
        now: Callable[[], float],
        shown: Shown,
        routes: Sequence[BaseRoute],
    ) -> None:
        self._app = app
        self._shown = shown
        self._callers = callers
        self._rules = rules
        self._now = now
        self._routes = routes
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
        if path in PROBES:
            return NOBODY
        right = right_of(self._routes, scope)
        caller = await self._identified(scope, headers, right)
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
            return caller or NOBODY
        if caller is None:
            raise Refused(401, "a valid token is needed.")
        if caller is NOBODY and right.scope is Scope.READ and self._is_open_to(scope, headers):
            caller = READER
        if not caller.may(right.scope):
            if not caller.name:
                raise Refused(401, f"a valid token of scope {right.scope} is needed.")
            raise Refused(403, f"token {caller.name!r} may not do this: it needs the scope {right.scope}.")
        if right.scope is Scope.AGENT and not caller.may_report_for(right.job, right.operator):
            bound = (
                f"job {caller.job!r}" if caller.operator is None else f"operator {caller.operator!r} of {caller.job!r}"
            )
            raise Refused(403, f"token {caller.name!r} may not do this: it may report for {bound} only.")
        if caller.csrf is not None and method not in SAFE:
            await self._require_own_page(scope, headers, caller.csrf, body)
        return caller

    async def _identified(
        self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes], right: Right
    ) -> Caller | None:
        """Return the caller, unless it has sent too many requests; ``None`` for an unknown token."""
        known = self._callers.known(headers)
        has_secret = b"authorization" in headers or b"cookie" in headers
        # Before an unknown token is looked up, so that trying many costs the service little.
        await self._limit_rate(known, scope, right, has_secret=has_secret)
        caller = await self._callers.of_headers(headers)
        if known is None and caller is not None and caller.name:
            await self._limit_rate(caller, scope, right, has_secret=has_secret)
        return caller

    async def _limit_rate(
        self, caller: Caller | None, scope: MutableMapping[str, Any], right: Right, *, has_secret: bool
    ) -> None:
        per_s = self._rules().requests_per_s
        if self._limit is None or self._limit[0] != per_s:
            self._limit = (per_s, RateLimit(per_s, self._now))
        # Agents may share a token, so each operator counts for itself. Names of jobs are shorter than what is compared.
        if caller is not None:
            known = f"{caller.name} {right.job[:64]} {right.operator[:64]}"
        else:
            # A flood without tokens must not keep a new token from being looked up, which comes from there as well.
            known = f"{'a token' if has_secret else 'nobody'} from {_address(scope)}"
        if not self._limit[1].admits(known):
            if caller is None:
                await asyncio.sleep(REFUSED_AFTER_S)
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
