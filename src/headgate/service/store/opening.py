"""Opens the store that a URL names, and makes its tables where they are not there yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, exc, insert, inspect, select
from sqlalchemy.pool import StaticPool

from headgate.core.errors import InputError, UnwritableJournalError
from headgate.journal.contract import Journal
from headgate.journal.memory import MemoryJournal
from headgate.journal.sqlite import SqliteJournal
from headgate.service.store.audit import AuditLog
from headgate.service.store.changes import Changes
from headgate.service.store.tables import SCHEMA_VERSION, about, metadata
from headgate.service.store.tokens import Tokens

IN_MEMORY = "sqlite://"
_FILE = "sqlite:///"
_VERSION = "schema"
_REFUSING = (
    "CREATE TRIGGER IF NOT EXISTS headgate_audit_no_{verb} BEFORE {verb} ON headgate_audit "
    "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
)


class Store:
    """Tokens, audit log and changes of one service, and a journal for each of its jobs; safe to use from any thread."""

    def __init__(
        self, engine: Engine, journal: Callable[[str], Journal], close: Callable[[], None], now: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._close = close
        self.journal_of = journal
        """A new writer of a job's journal, to be closed by whoever asked."""
        self.now = now
        self.tokens = Tokens(self.transaction, now)
        self.audit = AuditLog(self.transaction, now)
        self.changes = Changes(self.transaction, now)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at its end."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except exc.DBAPIError as error:
            raise UnwritableJournalError(f"the store cannot be used: {error.orig}.") from error

    def close(self) -> None:
        self._close()
        self._engine.dispose()


def open_store(
    url: str, *, retention: Mapping[str, object] | None = None, now: Callable[[], float] = time.time
) -> Store:
    """The store at a URL: ``sqlite:///FILE``, or ``sqlite://`` for one that lives and dies with the process."""
    if url == IN_MEMORY:
        return _in_memory(now)
    if url.startswith(_FILE):
        return _in_file(Path(url.removeprefix(_FILE)), retention, now)
    kind = url.partition(":")[0]
    raise InputError(f"a store of kind {kind!r} cannot be opened; sqlite:///FILE can.")


def _in_memory(now: Callable[[], float]) -> Store:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    _prepare(engine, "the store in memory")
    journals: dict[str, MemoryJournal] = {}
    return Store(engine, lambda job: journals.setdefault(job, MemoryJournal()), lambda: None, now)


def journal_beside(path: Path) -> Path:
    """The file with the journals of all jobs, beside that of the store."""
    return path.with_name(f"{path.stem}.journal{path.suffix}")


def _in_file(path: Path, retention: Mapping[str, object] | None, now: Callable[[], float]) -> Store:
    if not path.parent.is_dir():
        raise InputError(f"store {path} cannot be made: there is no folder {path.parent}.")
    engine = create_engine(f"{_FILE}{path}", connect_args={"timeout": 5.0})
    event.listen(engine, "connect", _set_up)
    try:
        _prepare(engine, f"store {path}")
        journal = SqliteJournal(journal_beside(path), retention=retention, now=now)
    except exc.DBAPIError as error:
        engine.dispose()
        raise UnwritableJournalError(f"store {path} cannot be opened: {error.orig}.") from error
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, lambda job: journal.another(), journal.close, now)


def _set_up(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]  # a connection of the driver, which has no type here
    cursor.execute("PRAGMA journal_mode = WAL")
    # What is kept here is rare and must not be lost, not even when the machine fails.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _prepare(engine: Engine, what: str) -> None:
    """Make the tables, or refuse those of another version."""
    if not inspect(engine).has_table(about.name):
        metadata.create_all(engine)
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                for verb in ("UPDATE", "DELETE"):
                    connection.exec_driver_sql(_REFUSING.format(verb=verb))
            if connection.execute(select(about.c.value)).first() is None:
                connection.execute(insert(about).values(key=_VERSION, value=str(SCHEMA_VERSION)))
        return
    with engine.begin() as connection:
        found = connection.execute(select(about.c.value).where(about.c.key == _VERSION)).scalar_one_or_none()
    if found != str(SCHEMA_VERSION):
        raise InputError(f"{what} has schema {found}; this Headgate uses schema {SCHEMA_VERSION} only.")
