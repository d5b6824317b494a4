"""The journal in a PostgreSQL database, for services that share it.

Every append is a transaction of its own. What is old is thinned as in files; how large the database may get is its own
matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    exc,
    func,
    insert,
    inspect,
    schema,
    select,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import URL, make_url

from headgate.core.errors import InputError, JournalError, UnwritableJournalError
from headgate.core.extras import needing
from headgate.journal import database
from headgate.journal.contract import Retention, retention_from
from headgate.journal.database import FORMAT, WRITING, JournalReader, metadata
from headgate.journal.writer import JournalWriter, Thinning, Writing

_THINS = int.from_bytes(b"hgthin")
"""The advisory lock for thinning: two writers at once would remove the same rows, and wait for each other."""


class PostgresWriter(Writing):
    """Writes transactions side by side, each on a connection of its own; closed when nobody uses it any more."""

    def __init__(self, database: PostgresDatabase, retention: Retention, now: Callable[[], float]) -> None:
        super().__init__(now)
        self._database = database
        self._thinning = Thinning(retention)
        self._thins = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        if self._users == 0:
            raise JournalError(f"journal {self._database.place} is closed.")
        with self._database.translated("written"), self._database.engine.begin() as connection:
            yield connection

    def upkeep(self, connection: Connection, now_s: float) -> None:
        if not self._thinning.is_due(now_s) or not self._thins.acquire(blocking=False):
            return
        try:
            if connection.execute(select(func.pg_try_advisory_xact_lock(_THINS))).scalar_one():
                self._thinning.step(connection, now_s)
        finally:
            self._thins.release()


SCHEMA = "headgate"
"""All tables lie in it, so that the database can be shared with others."""
_SETS_UP = int.from_bytes(b"hgmake")
"""The advisory lock for making the tables."""

_format = Table("format", MetaData(), Column("version", Integer, nullable=False))


class PostgresDatabase:
    """A database by its URL, with all connections to it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.engine = self.another_engine(MOST_CONNECTIONS)
        self.place = place_of(self.engine)

    def another_engine(self, connections: int) -> Engine:
        """Connections apart from the others, for what must not wait for them; the caller disposes of it."""
        return postgres_engine(self._url, connections).execution_options(schema_translate_map={None: SCHEMA})

    def open_for_writing(self) -> None:
        """Make the tables where there are none, and see that they are of this format."""
        with self.translated("opened for writing"), self._disposed_on_error(), self.engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_SETS_UP)))
            if self._check_format(connection, may_be_empty=True):
                connection.execute(schema.CreateSchema(SCHEMA, if_not_exists=True))
                metadata.create_all(connection)
                _format.create(connection)
                connection.execute(insert(_format).values(version=FORMAT))

    def open_for_reading(self) -> None:
        """See that there is a journal that can be read."""
        with self.translated("read"), self._disposed_on_error(), self.engine.connect() as connection:
            self._check_format(connection, may_be_empty=False)

    @contextmanager
    def translated(self, done: str) -> Iterator[None]:
        """Turns what PostgreSQL raises into a ``JournalError`` of one sentence."""
        try:
            yield
        except (exc.DBAPIError, exc.TimeoutError) as error:
            kind = UnwritableJournalError if done in WRITING else JournalError
            raise kind(f"journal {self.place} cannot be {done}: {first_line(error)}.") from error

    @contextmanager
    def _disposed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.engine.dispose()
            raise

    def _check_format(self, connection: Connection, *, may_be_empty: bool) -> bool:
        """Whether there is no journal yet; an error when there is one that cannot be read."""
        if not inspect(connection).has_table(_format.name, schema=SCHEMA):
            if not may_be_empty:
                raise InputError(f"{self.place} holds no journal of Headgate.")
            return True
        version = connection.execute(select(_format.c.version)).scalar_one()
        if version != FORMAT:
            raise InputError(
                f"journal {self.place} has format {version}; this Headgate reads and writes format {FORMAT} only: name "
                "another database, and keep this one for that version."
            )
        return False


SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
CONNECT_WITHIN_S = 5
MOST_CONNECTIONS = 10
IDLE_WITHIN_S = 5
"""A transaction whose client is silent for so long is undone by the server: one that is cut off must hold no locks."""
LOCK_WITHIN_S = 15
"""A statement that waits for a lock for so long fails: the loop must not stand still because somebody locks a table."""
_CONNECTING = {
    "connect_timeout": CONNECT_WITHIN_S,
    "application_name": "headgate",
    "options": f"-c idle_in_transaction_session_timeout={IDLE_WITHIN_S}s -c lock_timeout={LOCK_WITHIN_S}s",
    # A server that is cut off is noticed within seconds, and not when the kernel gives up.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
}


def is_postgres(where: object) -> bool:
    """Whether something names a PostgreSQL database, and not a file.

    >>> is_postgres("postgresql://headgate@db.example/headgate"), is_postgres("run.db")
    (True, False)
    """
    return isinstance(where, str) and where.partition("://")[0] in SCHEMES and "://" in where


def postgres_url(url: str) -> URL:
    """A URL with the driver that is used; ``InputError``, which never tells a password, where it is none."""
    try:
        parsed = make_url(url) if is_postgres(url) else None
    except (exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.database:
        raise InputError(
            "the database's URL is not usable; one such as postgresql://user:password@host:5432/name is needed."
        )
    return parsed.set(drivername="postgresql+psycopg")


def postgres_engine(url: str, most_connections: int = MOST_CONNECTIONS) -> Engine:
    """Connections to a database; those that broke while it was away are found out and made anew."""
    parsed = postgres_url(url)
    with needing("PostgreSQL"):
        import psycopg  # noqa: F401 - the driver, which SQLAlchemy would miss later and less clearly
    return create_engine(
        parsed,
        pool_pre_ping=True,
        pool_size=most_connections,
        max_overflow=0,
        connect_args=_CONNECTING,
    )


def place_of(engine: Engine) -> str:
    """Where a database is, without the password.

    >>> place_of(postgres_engine("postgresql://headgate:secret@localhost/jobs"))
    'postgresql://headgate:***@localhost/jobs'
    """
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=True)


def first_line(error: BaseException) -> str:
    """What PostgreSQL says of a fault, to be put into a sentence."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    return (lines[0] if lines else type(cause).__name__).rstrip(".")


_SAVE_STATE = upsert(database.states)
_SAVE_STATE = _SAVE_STATE.on_conflict_do_update(
    index_elements=["key"], set_={name: _SAVE_STATE.excluded[name] for name in ("written_s", "body")}
)


class PostgresReader(JournalReader):
    """A journal in PostgreSQL, to be read only; safe to use from any thread."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)
        self._database.open_for_reading()
        super().__init__(self._database.engine, self._database.place)

    def _translated(self, done: str) -> AbstractContextManager[None]:
        return self._database.translated(done)


class PostgresJournal(JournalWriter):
    """A journal in PostgreSQL; safe to use from any thread.

    One object is one writer with a run of its own; ``another`` gives a second one over the same connections.

    Args:
        url: Where it is: ``postgresql://user@host:5432/name``, or a database that is open. Its tables are made where
            they do not exist.
        retention: How long entries are retained; ``max_file_mb`` is for files and has no meaning here.
        now: Seconds since the epoch, for the age of entries.
    """

    def __init__(
        self,
        url: str | PostgresDatabase,
        *,
        retention: Retention | Mapping[str, object] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.retention = retention_from(retention)
        self._database = PostgresDatabase(url) if isinstance(url, str) else url
        self._database.open_for_writing()
        writing = PostgresWriter(self._database, self.retention, now)
        super().__init__(self._database.engine, self._database.place, writing, _SAVE_STATE)

    @staticmethod
    def read(url: str) -> PostgresReader:
        """A journal, to be read only, also while others write it."""
        return PostgresReader(url)

    def _translated(self, done: str) -> AbstractContextManager[None]:
        return self._database.translated(done)
