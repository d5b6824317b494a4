"""The lease by which one of several services that share a database leads: one row with a fencing token.

A service that gets the lease gets a token, a number higher than any before it. It leads as long as it renews the lease
in time. Another may take the lease when it has watched the row for the time of a lease, on its own monotonic clock, and
seen no renewal: so it does not matter if the clock of the database jumps. Every write of a leader checks, in its own
transaction, whether its token is still the newest (``fence``): the row is locked until that transaction ends, so a
write that passed the check is visible before another service leads.

A leader does not query the database before each answer. It measures its term on its own clock, from before it requested
the lease, so that it stops in time even if the answer was slow (``Term.holds``).
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
"""``until_s`` is by the clock of the database: when the lease ends, or, negative, when it was released."""
_ROW = lease.c.name == _NAME


@dataclass(frozen=True, slots=True)
class Term:
    """The time in which one service leads."""

    token: int
    until_s: float
    """On the monotonic clock of the leader: from then on it must not act as leader."""

    def holds(self, now_s: float) -> bool:
        return now_s < self.until_s


@dataclass(frozen=True, slots=True)
class Leader:
    """The current or last holder of the lease."""

    token: int
    holder: str
    url: str
    left_s: float
    """Seconds until another service may take it; 0 or less if one may now."""


class Lease:
    """The lease of one database, as one service sees it.

    - ``holder``: the service, by a name that no other has
    - ``url``: its address, which standbys give to their callers
    - ``transaction``: gives a transaction that is committed at its end
    - ``database_now``: an expression for the seconds of the database's clock
    - ``now``: a monotonic clock of this process
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
        self._seen: tuple[int, float] | None = None
        """The token and the end of the lease when it was last seen to change."""
        self._seen_s = 0.0
        self._wait_s = 0.0
        """How long it must then be unchanged before it can be taken."""

    @property
    def lasts_s(self) -> float:
        return self._lasts_s

    def acquire(self, ended_s: float = 0.0) -> Term | None:
        """Take the lease with a new token; ``None`` while another holds it, or held it less than ``ended_s`` ago."""
        requested_s = self._now()
        query = select(lease.c.token, lease.c.until_s, self._database_now.label("now_s")).where(_ROW)
        with self._transaction() as connection:
            row = connection.execute(query).first()
            assert row is not None, "the row is made with its table"
            if not self._has_ended(row.token, row.until_s, float(row.now_s), ended_s):
                return None
            taken = (
                update(lease)
                .where(_ROW, lease.c.token == row.token, lease.c.until_s == row.until_s)
                .values(token=lease.c.token + 1, holder=self._holder, url=self._url, until_s=self._end)
                .returning(lease.c.token)
            )
            token = connection.execute(taken).scalar_one_or_none()
        return None if token is None else Term(token, requested_s + self._lasts_s)

    def _has_ended(self, token: int, until_s: float, now_s: float, ended_s: float) -> bool:
        """Whether the lease was released, or was not renewed, and that ``ended_s`` ago; ``now_s`` is the database's."""
        if self._seen != (token, until_s):
            self._seen, self._seen_s = (token, until_s), self._now()
            # The leader's leases may last longer than ours; the database's clock may show anything.
            self._wait_s = max(self._lasts_s, min(until_s - now_s, LASTS_S))
        watched_s = self._now() - self._seen_s
        if until_s <= 0:
            return watched_s >= ended_s or now_s + until_s >= ended_s
        return watched_s >= self._wait_s + ended_s

    def renew(self, term: Term) -> Term | None:
        """Extend the lease, even late; ``None`` if another has led since."""
        requested_s = self._now()
        renewed = update(lease).where(_ROW, lease.c.token == term.token).values(until_s=self._end)
        with self._transaction() as connection:
            is_ours = connection.execute(renewed).rowcount == 1
        return replace(term, until_s=requested_s + self._lasts_s) if is_ours else None

    def release(self, term: Term) -> None:
        """End the lease, if it is still held, so that another can lead at once."""
        with self._transaction() as connection:
            ended = update(lease).where(_ROW, lease.c.token == term.token).values(until_s=-self._database_now)
            connection.execute(ended)

    def leader(self) -> Leader | None:
        """Return the current or last leader; ``None`` before the first one."""
        left_s = (lease.c.until_s - self._database_now).label("left_s")
        query = select(lease.c.token, lease.c.holder, lease.c.url, left_s).where(_ROW, lease.c.token > 0)
        with self._transaction() as connection:
            row = connection.execute(query).first()
        return None if row is None else Leader(row.token, row.holder, row.url, float(row.left_s))

    def database_time_s(self) -> float:
        """Return the time by the clock of the database."""
        with self._transaction() as connection:
            return float(connection.execute(select(self._database_now)).scalar_one())

    @property
    def _end(self) -> ColumnElement[float]:
        return self._database_now + literal(self._lasts_s)


def fence(token: int) -> Callable[[Connection], None]:
    """Return the check that begins every write of a leader; ``DeposedError`` if another has led since."""
    # The lock is shared: the writes of one leader need not wait for each other; only taking the lease does.
    ours = select(lease.c.token).where(_ROW, lease.c.token == token).with_for_update(read=True)

    def check(connection: Connection) -> None:
        if connection.execute(ours).first() is None:
            raise DeposedError(f"another service leads; what was to be written under token {token} is refused.")

    return check


def make_lease_table(engine: Engine) -> None:
    """Make the table and its one row if they do not exist yet; several services may do so at once."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(int.from_bytes(b"hgleas"))))
        metadata.create_all(connection)
        if connection.execute(select(lease.c.name)).first() is None:
            connection.execute(insert(lease).values(name=_NAME, token=0, holder="", url="", until_s=0.0))


POSTGRES_NOW: ColumnElement[float] = cast(extract("epoch", func.clock_timestamp()), Double)
"""The clock of PostgreSQL; its transaction time stands still."""
SQLITE_NOW: ColumnElement[float] = (func.julianday("now") - 2440587.5) * 86400.0


def database_now(engine: Engine) -> ColumnElement[float]:
    """Return an expression for the seconds since the epoch by a database's own clock."""
    return POSTGRES_NOW if engine.dialect.name == "postgresql" else SQLITE_NOW
