"""Tokens and their scopes, stored as digests."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from sqlalchemy import Connection, Row, delete, insert, select

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.documents.values import NAME_PATTERN
from headgate.service.store.tables import tokens

PREFIX = "hg_"
"""Makes a token recognisable where it should not be, such as in a repository."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")


class Scope(StrEnum):
    """What the holder of a token may do."""

    READ = "read"
    OPERATE = "operate"
    """Change jobs, and read."""
    AGENT = "agent"
    """Report for operators, and receive their sizes."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, which only its holder has."""

    name: str
    scopes: frozenset[Scope]
    made_s: float
    until_s: float | None = None
    job: str | None = None
    """The only job that it may report for; ``None``: for any."""
    operator: str | None = None
    """The only operator of that job."""

    def holds_at(self, at_s: float) -> bool:
        return self.until_s is None or at_s < self.until_s


def scope_named(name: str) -> Scope:
    try:
        return Scope(name)
    except ValueError:
        raise UnknownNameError("scope", name, map(str, Scope)) from None


def digest_of(secret: str) -> str:
    """Return the digest that is stored. A secret has 256 random bits, so a fast digest is safe against guessing."""
    return hashlib.sha256(secret.encode("utf-8", errors="surrogatepass")).hexdigest()


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


_TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{20,}}")
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
T = TypeVar("T")


def redacted(text: str) -> str:
    """Return the text without tokens of this service and without passwords in addresses.

    >>> redacted("see postgresql://ana:s3cret@db/x, or hg_0123456789012345678901234567890123456789012")
    'see postgresql://ana:…@db/x, or hg_…'
    """
    return _PASSWORD.sub(r"\1…@", _TOKEN.sub(f"{PREFIX}…", text))


def without_secrets(value: T) -> T:
    """Return the value with all texts in it redacted."""
    plain: JSON = value
    if isinstance(plain, str):
        return cast("T", redacted(plain))
    if isinstance(plain, dict):
        return cast("T", {key: without_secrets(part) for key, part in plain.items()})
    if isinstance(plain, list | tuple):
        return cast("T", [without_secrets(part) for part in plain])
    return value


class Tokens:
    """The tokens in a store."""

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[Connection]],
        reading: Callable[[], AbstractContextManager[Connection]],
        now: Callable[[], float],
    ) -> None:
        self._transaction = transaction
        self._reading = reading
        self._now = now

    def now(self) -> float:
        """Return the time by which tokens expire."""
        return self._now()

    def make(
        self,
        name: str,
        scopes: Collection[Scope],
        lasts_s: float | None = None,
        job: str | None = None,
        operator: str | None = None,
    ) -> str:
        """Make a token and return its secret, which is not stored; with a job it may report for that job only."""
        secret = new_secret()
        self.add(secret, name, scopes, lasts_s, job, operator)
        return secret

    def add(
        self,
        secret: str,
        name: str,
        scopes: Collection[Scope],
        lasts_s: float | None = None,
        job: str | None = None,
        operator: str | None = None,
    ) -> None:
        """Add a token with a given secret."""
        if not _NAME.fullmatch(name):
            raise InputError(f"name {name!r} of a token is not usable; letters, digits, '.', '_', '@' and '-' are.")
        if not scopes:
            raise InputError(f"token {name!r} has no scope; one or more of {', '.join(Scope)} are needed.")
        if job is not None and set(scopes) != {Scope.AGENT}:
            raise InputError(f"token {name!r} of job {job!r} can have the scope agent only, for reports on that job.")
        if operator is not None and job is None:
            raise InputError(f"token {name!r} names operator {operator!r} without its job; name both.")
        for kind, named in (("job", job), ("operator", operator)):
            if named is not None and not re.fullmatch(NAME_PATTERN, named):
                raise InputError(f"{kind} {named[:80]!r} of token {name!r} is no name; letters, digits, - and _ are.")
        now_s = self._now()
        values = {
            "digest": digest_of(secret),
            "name": name,
            "scopes": " ".join(sorted(scopes)),
            "made_s": now_s,
            "until_s": None if lasts_s is None else now_s + lasts_s,
            "job": job,
            "operator": operator,
        }
        with self._transaction() as connection:
            if connection.execute(select(tokens.c.name).where(tokens.c.name == name)).first() is not None:
                raise InputError(f"there is a token {name!r} already; revoke it first, or use another name.")
            connection.execute(insert(tokens).values(**values))

    def revoke(self, name: str) -> None:
        with self._transaction() as connection:
            known = [row.name for row in connection.execute(select(tokens.c.name))]
            if name not in known:
                raise UnknownNameError("token", name, known)
            connection.execute(delete(tokens).where(tokens.c.name == name))

    def all(self) -> list[Token]:
        return list(self.by_digest().values())

    def by_digest(self) -> dict[str, Token]:
        """Return all tokens by the digests of their secrets, the oldest first."""
        with self._reading() as connection:
            rows = list(connection.execute(select(tokens).order_by(tokens.c.made_s)))
        return {row.digest: _token(row) for row in rows}


def _token(row: Row[tuple[object, ...]]) -> Token:
    scopes = frozenset(Scope(name) for name in row.scopes.split())
    return Token(row.name, scopes, row.made_s, row.until_s, row.job, row.operator)
