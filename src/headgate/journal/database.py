"""The file behind the SQLite journal: its tables, its format, and opening it for writing or only for reading.

Write-ahead logging lets readers read while a writer writes. Each commit survives a killed process; only a crash of the
whole machine may cost the last commits, and never the file (``synchronous=NORMAL``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import (
    REAL,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    exc,
)
from sqlalchemy.pool import QueuePool, StaticPool

from headgate.core.errors import InputError, JournalError

APPLICATION_ID = int.from_bytes(b"hgjl")
"""Marks a SQLite file as a journal of Headgate."""

FORMAT = 1
"""The version of the tables; to be raised when an older Headgate could not read them."""

BUSY_TIMEOUT_S = 5.0
"""How long to wait for another process that is writing."""

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("written_s", REAL, nullable=False),
    Column("body", Text, nullable=False),
    sqlite_autoincrement=True,  # The number of a run that is gone is not given again.
)


def _entries(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True),
        Column("run", Integer, nullable=False),
        Column("at_s", REAL, nullable=False),
        Column("written_s", REAL, nullable=False),
        Column("body", Text, nullable=False),
        Index(f"{name}_by_run", "run", "at_s"),
    )


observations = _entries("observations")
decisions = _entries("decisions")
receipts = _entries("receipts")
events = _entries("events")
ENTRIES = (observations, decisions, receipts, events)

states = Table(
    "states",
    metadata,
    Column("key", Text, primary_key=True),
    Column("written_s", REAL, nullable=False),
    Column("body", Text, nullable=False),
)


def open_writer(path: Path) -> Engine:
    """An engine of one connection that writes the file, made where it does not exist."""
    if path.is_dir():
        raise InputError(f"journal {path} is a folder; a file is needed.")
    if not path.parent.is_dir():
        raise InputError(f"journal {path} cannot be made: there is no folder {path.parent}.")
    _refuse_special(path)
    engine = create_engine("sqlite://", creator=lambda: _connect(path, "rwc"), poolclass=StaticPool)
    # The lock is taken at the start: a transaction that reads first could find itself unable to write later.
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with translated(path, "opened for writing"), _disposed_on_error(engine):
        with engine.begin() as connection:
            if _check_format(path, connection, may_be_empty=True):
                metadata.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
        _set_durability(engine)
    return engine


def _set_durability(engine: Engine) -> None:
    # Past SQLAlchemy, which would begin a transaction first: neither can be set inside one.
    with closing(engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA journal_mode = WAL")
        connection.cursor().execute("PRAGMA synchronous = NORMAL")


def open_reader(path: Path) -> Engine:
    """An engine that can only read the file, also while others write it."""
    if not path.exists():
        raise InputError(f"journal {path} does not exist.")
    if path.is_dir():
        raise InputError(f"journal {path} is a folder; a file is needed.")
    _refuse_special(path)
    engine = create_engine("sqlite://", creator=lambda: _connect(path, "ro"), poolclass=QueuePool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with translated(path, "read"), _disposed_on_error(engine), engine.connect() as connection:
        _check_format(path, connection, may_be_empty=False)
    return engine


@contextmanager
def _disposed_on_error(engine: Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _refuse_special(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise InputError(f"journal {path} is not a regular file; one is needed.")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # Transactions are begun above, not guessed by the driver.
        check_same_thread=False,
    )


def _check_format(path: Path, connection: Connection, *, may_be_empty: bool) -> bool:
    """Whether the file is still empty; an error when it is something else than a journal that can be read."""
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if application == APPLICATION_ID:
        if version > FORMAT:
            raise InputError(
                f"journal {path} has format {version}, of a newer Headgate; this one knows formats up to {FORMAT}."
            )
        return False
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if application or version or tables:
        raise InputError(f"{path} is not a journal of Headgate: it is a SQLite database of something else.")
    if not may_be_empty:
        raise InputError(f"{path} is not a journal of Headgate: it is empty.")
    return True


@contextmanager
def translated(path: Path, done: str) -> Iterator[None]:
    """Turns what SQLite raises into a ``JournalError`` of one sentence."""
    try:
        yield
    except exc.DBAPIError as error:
        raise _sentence(path, done, error.orig) from error
    except sqlite3.Error as error:
        raise _sentence(path, done, error) from error


def _sentence(path: Path, done: str, cause: BaseException | None) -> JournalError | InputError:
    if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return InputError(f"{path} is not a journal of Headgate: it is not a SQLite database.")
    return JournalError(f"journal {path} cannot be {done}: {cause}.")
