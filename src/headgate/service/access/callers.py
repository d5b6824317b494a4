"""Who asks: by a token in a header or in a cookie, or nobody who is known."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from headgate.core.errors import JournalError
from headgate.service.store.tokens import Scope, Token, Tokens

COOKIE = "headgate_token"
"""Holds the token of a browser; no script can read it, and no other site can have it sent."""
REMEMBERED_S = 5.0
"""A token that was revoked is refused after so long at the latest."""
_MOST_REMEMBERED = 10_000
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks; ``csrf`` is what a form must carry where the token came in a cookie."""

    name: str
    scopes: frozenset[Scope] = frozenset()
    csrf: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (scope is Scope.READ and Scope.OPERATE in self.scopes)


NOBODY = Caller("")
READER = Caller("", frozenset({Scope.READ}))
"""Somebody on this machine, where reading is open to them."""


def csrf_of(secret: str) -> str:
    """What a form must carry to be taken: nobody who does not have the token itself can know it."""
    return hmac.new(secret.encode("utf-8", errors="surrogatepass"), b"headgate form", hashlib.sha256).hexdigest()


class Callers:
    """Finds out who asks; what was found is remembered for a moment, for agents ask often."""

    def __init__(self, tokens: Tokens, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now = now
        self._known: dict[str, tuple[float, Token | None]] = {}

    def of_headers(self, headers: dict[bytes, bytes]) -> Caller | None:
        """The caller; ``None`` for a token that is not known, ``NOBODY`` where there is none."""
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
        """Who holds a secret, as far as is known."""
        now_s = self._now()
        seen_s, token = self._known.get(secret, (-REMEMBERED_S, None))
        if now_s - seen_s >= REMEMBERED_S:
            try:
                token = self._tokens.of_secret(secret)
            except JournalError:
                # Who was known a moment ago is believed while the store is away: agents must not be turned away by it.
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
