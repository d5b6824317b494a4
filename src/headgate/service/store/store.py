"""Opens the store at a URL, and makes its tables if they do not exist yet."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import Connection, Engine, create_engine, event, exc, func, insert, inspect, select, update
from sqlalchemy.pool import StaticPool

from headgate.core.errors import HeadgateError, InputError, UnwritableJournalError, cause_of, is_of_the_disk
from headgate.journal.contract import Journal
from headgate.journal.database import JournalFollower, JournalReader, problem_with_writing
from headgate.journal.memory import MemoryJournal
from headgate.journal.postgres import SCHEMA, PostgresDatabase, PostgresJournal, first_line, is_postgres
from headgate.journal.writer import Fence, SqliteJournal
from headgate.service.lease import Lease, database_now, make_lease_table
from headgate.service.store.changes import AuditLog, Changes
from headgate.service.store.tables import SCHEMA_VERSION, VERSION_KEY, about, metadata
from headgate.service.store.tokens import Tokens

JournalOf: TypeAlias = Callable[[str, Fence | None], Journal]


ANSWER_WITHIN_S = 5
"""A statement that takes longer is given up: somebody holds a lock, and requests must not wait for that."""
CLOSES_WITHIN_S = 10.0
"""A store is closed after so long even if somebody still uses it."""


class Store:
    """Tokens, audit log and changes of one service, and a journal for each of its jobs; safe to use from any thread.

    Where other services may use it as well, ``lease_engine`` connects to the lease by which one of them leads.
    """

    def __init__(
        self,
        engine: Engine,
        journal: JournalOf,
        close: Callable[[], None],
        now: Callable[[], float],
        *,
        lease_engine: Engine | None = None,
        place: str = "",
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._close = close
        self._place = place
        self.now = now
        self._lease_engine = lease_engine
        self.fence: Fence | None = None
        """Checks in every transaction of a leader that it still leads."""
        self._uses, self._uses_now = threading.Condition(), 0
        # Without the fence: a standby reads as well, though it may not write.
        self.tokens = Tokens(self.transaction, lambda: self._on(engine), now)
        self.audit = AuditLog(self.transaction, now)
        self.changes = Changes(lambda: self._on(engine), now)

    def journal_of(self, job: str) -> Journal:
        """Return a new writer of a job's journal, which the caller closes."""
        return self._journal(job, self.fence)

    def following(self) -> JournalFollower:
        """Return a reader of what others write to the journals of all jobs from now on."""
        reader = self._journal("", None)
        assert isinstance(reader, JournalReader), "only a store in a database is followed"
        return JournalFollower(reader)

    @property
    def is_shared(self) -> bool:
        """Whether other services may use it as well, of which one leads."""
        return self._lease_engine is not None

    def lease(self, holder: str, url: str, lasts_s: float) -> Lease:
        """The lease by which one of several services leads that share this store."""
        engine = self._lease_engine
        assert engine is not None, "only a shared store has a lease"
        return Lease(lambda: self._on(engine), holder, url, database_now=database_now(engine), lasts_s=lasts_s)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at its end."""
        fence = self.fence
        with self._on(self._engine) as connection:
            if fence is not None:
                fence(connection)
            yield connection

    @contextmanager
    def _on(self, engine: Engine) -> Iterator[Connection]:
        with self._uses:
            self._uses_now += 1
        try:
            with engine.begin() as connection:
                # The lease has to wait: for a write that passed its fence, until that ends or is given up.
                if engine.dialect.name == "postgresql" and engine is self._engine:
                    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{ANSWER_WITHIN_S}s'")
                yield connection
        except (exc.DBAPIError, exc.TimeoutError) as error:
            named = f"the store {self._place}".rstrip()
            raise UnwritableJournalError(f"{named} cannot be used: {first_line(error)}.") from error
        finally:
            with self._uses:
                self._uses_now -= 1
                self._uses.notify_all()

    def close(self) -> None:
        self._close()
        with self._uses:
            # A connection in memory is shared by all threads: SQLite may crash if it is closed while it is in use.
            self._uses.wait_for(lambda: self._uses_now == 0, CLOSES_WITHIN_S)
            self._engine.dispose()
        if self._lease_engine is not None:
            self._lease_engine.dispose()


_SETS_UP = int.from_bytes(b"hgstor")
_ONLY_ADDED_TO = (
    f"CREATE OR REPLACE FUNCTION {SCHEMA}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$",
    f"CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON {SCHEMA}.headgate_audit "
    f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.refuse_change()",
)


def open_in_postgres(url: str, retention: Mapping[str, object] | None, now: Callable[[], float]) -> Store:
    """Open a store in PostgreSQL: tables, journal and lease are in one schema of a database."""
    database = PostgresDatabase(url)
    try:
        journal = PostgresJournal(database, retention=retention, now=now)
    except UnwritableJournalError as error:
        # Nothing has been written yet, so the address or the user is wrong, or the server is not there.
        why = first_line(error.__cause__ or error)
        raise InputError(f"store {database.place} cannot be opened: {why}.") from error
    try:
        with database.translated("opened for writing"):
            with database.engine.begin() as connection:
                connection.execute(select(func.pg_advisory_xact_lock(_SETS_UP)))
                _prepare(connection, f"store {database.place}", _ONLY_ADDED_TO, SCHEMA)
            make_lease_table(database.engine)
    except BaseException:
        journal.close()
        raise
    return Store(
        database.engine,
        lambda job, fence: journal.another(fence),
        journal.close,
        now,
        # A lease must not have to wait until somebody has read a long history.
        lease_engine=database.another_engine(1),
        place=database.place,
    )


IN_MEMORY = "sqlite://"
LEAST_FREE_BYTES = 200_000
"""What SQLite needs to open a file with its log."""
_FILE = "sqlite:///"
_REFUSING = tuple(
    f"CREATE TRIGGER IF NOT EXISTS headgate_audit_no_{verb} BEFORE {verb} ON headgate_audit "
    "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
    for verb in ("UPDATE", "DELETE")
)


def open_store(
    url: str, *, retention: Mapping[str, object] | None = None, now: Callable[[], float] = time.time
) -> Store:
    """The store at a URL: ``sqlite:///FILE``, ``postgresql://…`` for one that several services share, or ``sqlite://``
    for one that lives and dies with the process."""
    if url == IN_MEMORY:
        return _in_memory(now)
    if url.startswith(_FILE):
        return _in_file(Path(url.removeprefix(_FILE)), retention, now)
    if is_postgres(url):
        return open_in_postgres(url, retention, now)
    kind = url.partition(":")[0]
    raise InputError(f"a store of kind {kind!r} cannot be opened; sqlite:///FILE and postgresql://… can.")


def _in_memory(now: Callable[[], float]) -> Store:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with engine.begin() as connection:
        _prepare(connection, "the store in memory", _REFUSING)
    journals: dict[str, MemoryJournal] = {}
    return Store(engine, lambda job, fence: journals.setdefault(job, MemoryJournal()), lambda: None, now)


def journal_path(path: Path) -> Path:
    """Return the file with the journals of all jobs, next to that of the store."""
    return path.with_name(f"{path.stem}.journal{path.suffix}")


def _in_file(path: Path, retention: Mapping[str, object] | None, now: Callable[[], float]) -> Store:
    if not path.parent.is_dir():
        raise InputError(f"store {path} cannot be made: there is no folder {path.parent}.")
    engine = create_engine(f"{_FILE}{path}", connect_args={"timeout": 5.0})
    event.listen(engine, "connect", _set_up)
    try:
        with engine.begin() as connection:
            _prepare(connection, f"store {path}", _REFUSING)
        journal = SqliteJournal(journal_path(path), retention=retention, now=now)
    except exc.DBAPIError as error:
        engine.dispose()
        raise _sentence(path, error.orig) from error
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, lambda job, fence: journal.another(fence), journal.close, now)


def _sentence(path: Path, cause: BaseException | None) -> HeadgateError:
    """Return an error that says what is wrong: the file, its permissions or the disk."""
    if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return InputError(f"{path} is not a store of Headgate: it is not a SQLite database.")
    # SQLite reports an I/O error if there is no room for its log next to the file.
    free_bytes, problem = shutil.disk_usage(path.parent).free, problem_with_writing(path)
    why = f"the disk is full, {free_bytes} bytes are free" if free_bytes < LEAST_FREE_BYTES else str(cause)
    if problem is not None:
        why = cause_of(problem)
    kind = InputError if problem is not None and not is_of_the_disk(problem) else UnwritableJournalError
    return kind(f"store {path} cannot be opened: {why}.")


def _set_up(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]  # a connection of the driver, which has no type here
    cursor.execute("PRAGMA journal_mode = WAL")
    # Writes are rare and must not be lost, not even when the machine fails.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _prepare(connection: Connection, what: str, statements: Iterable[str], schema: str | None = None) -> None:
    """Make the tables, and carry out the statements once; or refuse tables of another version."""
    if not inspect(connection).has_table(about.name, schema=schema):
        metadata.create_all(connection)
        for statement in statements:
            connection.exec_driver_sql(statement)
        connection.execute(insert(about).values(key=VERSION_KEY, value=str(SCHEMA_VERSION)))
        return
    is_version = about.c.key == VERSION_KEY
    found = connection.execute(select(about.c.value).where(is_version)).scalar_one_or_none()
    if found == "1":
        table = "headgate_tokens" if schema is None else f"{schema}.headgate_tokens"
        for column in ("job", "operator"):
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")
        connection.execute(update(about).where(is_version).values(value=str(SCHEMA_VERSION)))
    elif found != str(SCHEMA_VERSION):
        raise InputError(f"{what} has schema {found}; this Headgate uses schema {SCHEMA_VERSION} only.")
