"""Who leads, of several services that share a database: a lease with a fencing token, in one row.

A service that gets the lease gets a token, a number higher than any before it. It leads as long as it renews the lease
in time; when it does not, another may take it, and nothing but the clock of the database says when. Every write of a
leader asks, in its own transaction, whether its token is still the newest (``fence``): the row is locked until that
transaction ends, so a write that was let through is there before anybody else leads.

A leader does not ask the database before it answers somebody. It knows for how long it may: it counts on its own clock,
from before it asked for the lease, so that it stops in time even where the answer was slow (``Term.holds``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Engine,
    MetaData,
    Table,
    Text,
    cast,
    extract,
    func,
    insert,
    literal,
    select,
    update,
)

from headgate.core.errors import DeposedError

LASTS_S = 4.0
"""How long a lease lasts that is not renewed."""
_NAME = "leader"

metadata = MetaData()
lease = Table(
    "headgate_lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("until_s", Double, nullable=False),
)
_ROW = lease.c.name == _NAME


@dataclass(frozen=True, slots=True)
class Term:
    """The time in which one service leads."""

    token: int
    until_s: float
    """On the monotonic clock of whoever leads: from then on it must not act as leader."""

    def holds(self, now_s: float) -> bool:
        return now_s < self.until_s


@dataclass(frozen=True, slots=True)
class Leader:
    """Who holds the lease, or held it last."""

    token: int
    holder: str
    url: str
    left_s: float
    """Until it may be taken by another; not above 0 where it may."""


class Lease:
    """The lease of one database, as one service sees it.

    - ``holder``: the service, by a name that no other has
    - ``url``: where it is to be reached, for those who ask another
    - ``transaction``: gives a transaction that is committed at its end
    - ``database_now``: the seconds of the database's clock, in its own words
    - ``now``: this process's clock, which nobody sets
    """

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[Connection]],
        holder: str,
        url: str,
        *,
        database_now: ColumnElement[float],
        lasts_s: float = LASTS_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transaction = transaction
        self._holder, self._url = holder, url
        self._lasts_s = lasts_s
        self._database_now = database_now
        self._now = now

    @property
    def lasts_s(self) -> float:
        return self._lasts_s

    def acquire(self, ended_s: float = 0.0) -> Term | None:
        """Lead from now on, with a new token; ``None`` while another does, or did less than ``ended_s`` ago."""
        requested_s = self._now()
        taken = (
            update(lease)
            .where(_ROW, lease.c.until_s <= self._database_now - literal(ended_s))
            .values(token=lease.c.token + 1, holder=self._holder, url=self._url, until_s=self._end)
            .returning(lease.c.token)
        )
        with self._transaction() as connection:
            token = connection.execute(taken).scalar_one_or_none()
        return None if token is None else Term(token, requested_s + self._lasts_s)

    def renew(self, term: Term) -> Term | None:
        """Go on leading; ``None`` where another has led since. Late is fine as long as nobody has."""
        requested_s = self._now()
        renewed = update(lease).where(_ROW, lease.c.token == term.token).values(until_s=self._end)
        with self._transaction() as connection:
            is_ours = connection.execute(renewed).rowcount == 1
        return replace(term, until_s=requested_s + self._lasts_s) if is_ours else None

    def release(self, term: Term) -> None:
        """Let another lead at once; nothing happens where another does already."""
        with self._transaction() as connection:
            ended = update(lease).where(_ROW, lease.c.token == term.token).values(until_s=self._database_now)
            connection.execute(ended)

    def leader(self) -> Leader | None:
        """Who leads, or did last; ``None`` before anybody has."""
        query = select(lease.c.token, lease.c.holder, lease.c.url, lease.c.until_s - self._database_now)
        with self._transaction() as connection:
            token, holder, url, left_s = connection.execute(query.where(_ROW)).one()
        return Leader(token, holder, url, float(left_s)) if token else None

    def database_time_s(self) -> float:
        """What the clock of the database shows."""
        with self._transaction() as connection:
            return float(connection.execute(select(self._database_now)).scalar_one())

    @property
    def _end(self) -> ColumnElement[float]:
        return self._database_now + literal(self._lasts_s)


def fence(token: int) -> Callable[[Connection], None]:
    """What a leader asks first in every transaction that it writes in; ``DeposedError`` where another has led since."""
    # The lock is shared: the writes of one leader need not wait for each other, only whoever takes the lease does.
    ours = select(lease.c.token).where(_ROW, lease.c.token == token).with_for_update(read=True)

    def ask(connection: Connection) -> None:
        if connection.execute(ours).first() is None:
            raise DeposedError(f"another service leads; what was to be written under token {token} is refused.")

    return ask


def make_lease_table(engine: Engine) -> None:
    """Make the table and its one row where they are not there yet; several may do so at once."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(int.from_bytes(b"hgleas"))))
        metadata.create_all(connection)
        if connection.execute(select(lease.c.name)).first() is None:
            connection.execute(insert(lease).values(name=_NAME, token=0, holder="", url="", until_s=0.0))


POSTGRES_NOW: ColumnElement[float] = cast(extract("epoch", func.clock_timestamp()), Double)
"""The clock of PostgreSQL; not that of its transaction, which stands still."""
SQLITE_NOW: ColumnElement[float] = (func.julianday("now") - 2440587.5) * 86400.0


def database_now(engine: Engine) -> ColumnElement[float]:
    """The seconds since the epoch by a database's own clock, in its own words."""
    return POSTGRES_NOW if engine.dialect.name == "postgresql" else SQLITE_NOW
