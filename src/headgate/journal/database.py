"""The tables of a journal, opening its SQLite file for writing or only for reading, and the reader of every database.

Write-ahead logging lets readers read while somebody writes. Several may write: each waits for the other's transaction,
which is short. Each commit survives a killed process; only a crash of the whole machine may cost the last commits, and
never the file (``synchronous=NORMAL``).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    create_engine,
    event,
    exc,
    func,
    or_,
    select,
)
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.types import TypeEngine

from headgate.core.errors import InputError, JournalError, UnwritableJournalError, cause_of, is_of_the_disk
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal import codec
from headgate.journal.codec import unpacked
from headgate.journal.contract import Detail, Runs, Thinned, last_sizes


def problem_with_writing(path: Path) -> OSError | None:
    """The error of writing this file, or another in its folder; ``None`` where it can be written.

    The file itself is not opened: the reader of a pipe would notice, and SQLite would lose its locks.
    """
    if path.exists() and not os.access(path, os.W_OK):
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        number = errno.EROFS if is_read_only else errno.EACCES
        return OSError(number, os.strerror(number), str(path))
    if path.exists() and not path.is_file():
        return None  # A device or a pipe is written as it is.
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        return error
    return None


FORMAT = 2
"""The version of the tables and of what is in them; to be raised when an older Headgate could not read them."""

# In SQLite these hold eight bytes by their short names, and only an INTEGER numbers its rows by itself.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_SECONDS: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("job", Text, nullable=False),
    Column("written_s", _SECONDS, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("runs_by_job", "job"),
    sqlite_autoincrement=True,  # The number of a run that is gone is not given again.
)


def _entries(name: str) -> Table:
    """A kind of entries. ``series`` and ``detail`` say which of them may be thinned together (``thinning.py``)."""
    return Table(
        name,
        metadata,
        Column("id", _NUMBER, primary_key=True),
        Column("run", _NUMBER, nullable=False),
        Column("at_s", _SECONDS, nullable=False),
        Column("written_s", _SECONDS, nullable=False),
        Column("series", Text, nullable=False),
        Column("detail", Integer, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Index(f"{name}_by_run", "run", "at_s"),
        # The oldest of a detail is looked for; SQLite has the number of a row in every index anyway.
        Index(f"{name}_by_detail", "detail").ddl_if(dialect="sqlite"),
        Index(f"{name}_by_detail_and_id", "detail", "id").ddl_if(dialect="postgresql"),
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
    Column("written_s", _SECONDS, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


APPLICATION_ID = int.from_bytes(b"hgjl")
"""Marks a SQLite file as a journal of Headgate."""

BUSY_TIMEOUT_S = 5.0
"""How long to wait for another process that is writing."""

CHECKPOINT_PAGES = 1000
"""The log is written back into the file when it has so many pages (SQLite's own default, of 4 KiB each)."""

LOG_LIMIT_BYTES = 6_000_000
"""A log longer than this could not be written back for want of a moment without readers; it is then not waited for."""

OPENING = "opened for writing"
WRITING = (OPENING, "written")
"""What cannot be done to a file that may not be written."""


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
    with translated(path, OPENING), _disposed_on_error(engine):
        with engine.begin() as connection:
            is_empty = _check_format(path, connection, may_be_empty=True)
        _set_up_log(path, engine)
        if is_empty:
            _make_tables(path, engine)
    return engine


def _make_tables(path: Path, engine: Engine) -> None:
    with engine.begin() as connection:
        # Another process may have been faster.
        if _check_format(path, connection, may_be_empty=True):
            metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")


def _set_up_log(path: Path, engine: Engine) -> None:
    # Past SQLAlchemy, which would begin a transaction first: these cannot be set inside one.
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        mode = _switch_to_log(cursor)
        if mode != "wal":
            raise InputError(
                f"journal {path} lies on a file system without write-ahead logging, by which it can be read and "
                f"written at once (its mode stays {mode!r}); put it on a local disk."
            )
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


def _switch_to_log(cursor: DBAPICursor) -> str:
    """The mode the file is in afterwards. SQLite itself does not wait here for another that opens the file."""
    give_up_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            (mode,) = cursor.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_s:
                raise
            time.sleep(0.01)
        else:
            return str(mode)


def log_bytes(path: Path) -> int:
    """The size of a file's write-ahead log; 0 when there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def cut_log_back(path: Path, engine: Engine) -> None:
    """Write a log that became too long back into the file.

    SQLite does that by itself, but only in a moment without readers, and readers that overlap leave it none. Here new
    ones have to wait for a moment; one that reads for longer is not waited for.
    """
    if log_bytes(path) <= LOG_LIMIT_BYTES:
        return
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 100")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        cursor.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT_S)}")


def used_bytes(connection: Connection) -> int:
    """What the entries take of the file; the rest of it is free and used again."""
    pages, free, size = (
        connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def open_reader(path: Path) -> Engine:
    """An engine that can only read the file, also while others write it."""
    if not path.exists():
        raise InputError(f"journal {path} does not exist.")
    if path.is_dir():
        raise InputError(f"journal {path} is a folder; a file is needed.")
    _refuse_special(path)
    if _is_cut_off(path):
        raise JournalError(
            f"journal {path} has a log, {path.name}-wal, whose writer was killed, and it is read only where "
            "files can be written: copy both to such a folder."
        )
    # SQLite would write into the folder even to read; where it may not, nobody else writes there either.
    mode = "ro&immutable=1" if is_read_only(path) else "ro"
    engine = create_engine("sqlite://", creator=lambda: _connect(path, mode), poolclass=QueuePool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with translated(path, "read"), _disposed_on_error(engine), engine.connect() as connection:
        _check_format(path, connection, may_be_empty=False)
    return engine


def is_read_only(path: Path) -> bool:
    """Whether a journal lies where nothing can be written, and all of it is in the file."""
    return not os.access(path.parent, os.W_OK) and log_bytes(path) == 0


def _is_cut_off(path: Path) -> bool:
    """Whether part of a journal is in a log for which SQLite would have to make a file where none can be made."""
    has_index = path.with_name(f"{path.name}-shm").exists()
    return log_bytes(path) > 0 and not has_index and not os.access(path.parent, os.W_OK)


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
        if version < 1:
            raise InputError(f"journal {path} has format {version}, which no Headgate writes: it is damaged.")
        if version != FORMAT:
            other = "a newer" if version > FORMAT else "an older"
            raise InputError(
                f"journal {path} has format {version}, of {other} Headgate; this one reads and writes format {FORMAT} "
                f"only: name another file, and keep this one for that version."
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
    if done not in WRITING:
        return JournalError(f"journal {path} cannot be {done}: {cause}.")
    # SQLite calls it "unable to open", whatever the system said.
    problem = problem_with_writing(path)
    # What could be written when a run began was no mistake.
    is_mistake = problem is not None and done == OPENING and not is_of_the_disk(problem)
    kind = InputError if is_mistake else UnwritableJournalError
    return kind(f"journal {path} cannot be {done}: {cause if problem is None else cause_of(problem)}.")


T = TypeVar("T")


class JournalReader(ABC):
    """A journal in a database, to be read only, also while others write it; safe to use from any thread."""

    def __init__(self, engine: Engine, place: str) -> None:
        self.place = place
        """Where it is, for messages: a file, or a URL without its password."""
        self._reading = engine
        self._closed = False

    @abstractmethod
    def _translated(self, done: str) -> AbstractContextManager[None]:
        """Turns what the database raises into a ``JournalError`` of one sentence."""

    def jobs(self) -> list[str]:
        """The names of the jobs that have a run here, the one that began a run last at the end."""
        query = select(runs.c.job).group_by(runs.c.job).order_by(func.max(runs.c.number))
        return [row.job for row in self.rows(query)]

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        """The runs that are still there, by number."""
        return [self._numbered(row) for row in reversed(list(self.rows(_newest_runs(job))))]

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        """The run that began last."""
        return next((self._numbered(row) for row in self.rows(_newest_runs(job).limit(1))), None)

    def last_sizes(self, job: str) -> dict[str, int]:
        """The planned size that each operator of a job's newest run had last, as far as it is known."""

        def newest_first(run: int) -> Generator[Observation]:
            for row in self.rows(_newest_entries(observations, run)):
                yield self.decoded(codec.observation_from_dict, row.body)

        return last_sizes(self, job, newest_first)

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        """When the first and the last observation at or after a time were made, by run of a job, oldest run first."""
        seen = observations
        of_job = select(runs.c.number).where(runs.c.job == job)
        span = select(seen.c.run, func.min(seen.c.at_s).label("first_s"), func.max(seen.c.at_s).label("last_s"))
        query = span.where(seen.c.run.in_(of_job), seen.c.at_s >= since_s).group_by(seen.c.run).order_by(seen.c.run)
        return {row.run: (row.first_s, row.last_s) for row in self.rows(query)}

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]:
        return self._entries(observations, codec.observation_from_dict, run, since_s)

    def decisions(self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None) -> list[Decision]:
        return self._entries(decisions, codec.decision_from_dict, run, since_s, last)

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        return self._entries(receipts, codec.receipt_from_dict, run, since_s)

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        return self._entries(events, codec.event_from_dict, run, since_s)

    def thinned(self, *, run: int | None = None) -> Thinned:
        """Where entries of a run are no longer all there, because they are old."""
        until_s: dict[int, Instant] = {}
        for table in ENTRIES:
            thin = table.c.detail.in_((Detail.MINUTE, Detail.HOUR))
            query = select(table.c.detail, func.max(table.c.at_s).label("until_s")).group_by(table.c.detail)
            for row in self.rows(query.where(table.c.run == _number(run), thin)):
                until_s[row.detail] = max(row.until_s, until_s.get(row.detail, row.until_s))
        return Thinned(until_s.get(Detail.MINUTE), until_s.get(Detail.HOUR))

    def load_state(self, key: str) -> Mapping[str, JSON] | None:
        query = select(states.c.body).where(states.c.key == key)
        return next((self.decoded(dict, row.body, is_state=True) for row in self.rows(query)), None)

    def load_states(self, keys: Collection[str]) -> dict[str, Mapping[str, JSON]]:
        """The states of some keys, read at once; keys without one are left out."""
        query = select(states.c.key, states.c.body).where(states.c.key.in_(keys))
        return {row.key: self.decoded(dict, row.body, is_state=True) for row in self.rows(query)}

    def state_keys(self) -> list[str]:
        """The keys that there is state under, the one saved last at the end."""
        return [row.key for row in self.rows(select(states.c.key).order_by(states.c.written_s, states.c.key))]

    def close(self) -> None:
        """Let go of the database; calling it twice is fine."""
        self._closed = True
        self._reading.dispose()

    def _open(self) -> Engine:
        if self._closed:
            raise JournalError(f"journal {self.place} is closed.")
        return self._reading

    def rows(self, query: Select[Any]) -> Iterator[Row[Any]]:
        """What is found, read as it is taken."""
        with self._translated("read"), self._open().connect() as connection:
            yield from connection.execute(query)

    def _entries(
        self,
        table: Table,
        decode: Callable[[Mapping[str, JSON]], T],
        run: Runs,
        since_s: Instant | None,
        last: int | None = None,
    ) -> list[T]:
        query = _newest_entries(table, run).limit(last)
        if since_s is not None:
            query = query.where(table.c.at_s >= since_s)
        rows = list(self.rows(query))
        return [self.decoded(decode, row.body) for row in reversed(rows)]

    def _numbered(self, row: Row[Any]) -> tuple[int, Run]:
        return row.number, self.decoded(codec.run_from_dict, row.body)

    def decoded(self, decode: Callable[[Mapping[str, JSON]], T], body: bytes, *, is_state: bool = False) -> T:
        """What an entry says; ``JournalError`` where it is damaged."""
        try:
            return decode(codec.from_json(unpacked(body, is_state=is_state)))
        except (JournalError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            cause = str(error).rstrip(".")
            raise JournalError(f"journal {self.place} has a damaged entry of {len(body)} bytes: {cause}.") from error


def _newest_runs(job: str | None) -> Select[Any]:
    query = select(runs.c.number, runs.c.body).order_by(runs.c.number.desc())
    return query if job is None else query.where(runs.c.job == job)


def _newest_entries(table: Table, run: Runs) -> Select[Any]:
    """Backwards, so that the last few of a long run are found without reading all of it."""
    is_its = table.c.run.in_(run) if isinstance(run, Collection) else table.c.run == _number(run)
    query = select(table.c.body).where(is_its)
    return query.order_by(table.c.at_s.desc(), table.c.id.desc())


def _number(run: int | None) -> Any:
    """The number of a run; that of the newest where none is given."""
    return select(func.max(runs.c.number)).scalar_subquery() if run is None else run


Entry: TypeAlias = Observation | Decision | Receipt

AT_ONCE = 2000
"""Entries of a kind that are read at once, so that nobody has to wait for long."""
MAX_GAP = 1000
"""A number that was passed over is looked for until so many higher ones have been found."""
_KINDS: Mapping[Table, Callable[[Mapping[str, Any]], Entry]] = {
    observations: codec.observation_from_dict,
    decisions: codec.decision_from_dict,
    receipts: codec.receipt_from_dict,
}


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that is new, and its run."""

    number: int
    run: Run
    entry: Entry


class JournalFollower:
    """What is written from now on to the journal that ``reader`` reads."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader
        self._newest = {table: self._newest_id(table) for table in _KINDS}
        self._passed_over: dict[Table, set[int]] = {table: set() for table in _KINDS}
        self._runs: dict[int, Run] = {}

    def new_entries(self) -> list[NewEntry]:
        """What was written since the last call: observations, decisions, then receipts, each in their order.

        Not all of it where that is much; nothing is left when it gives nothing.
        """
        return [entry for table in _KINDS for entry in self._of(table)]

    def close(self) -> None:
        self.reader.close()

    def _newest_id(self, table: Table) -> int:
        return next(iter(self.reader.rows(select(func.max(table.c.id).label("newest"))))).newest or 0

    def _of(self, table: Table) -> list[NewEntry]:
        newest, passed_over = self._newest[table], self._passed_over[table]
        is_new = or_(table.c.id > newest, table.c.id.in_(passed_over))
        query = select(table.c.id, table.c.run, table.c.body).where(is_new).order_by(table.c.id).limit(AT_ONCE)
        rows = list(self.reader.rows(query))
        if not rows:
            return []
        self._learn_runs({row.run for row in rows})
        found = [
            NewEntry(row.run, self._runs[row.run], self.reader.decoded(_KINDS[table], row.body))
            for row in rows
            if row.run in self._runs
        ]
        ids = {row.id for row in rows}
        self._newest[table] = highest = max(newest, *ids)
        oldest = highest - MAX_GAP
        skipped = (passed_over | set(range(max(newest, oldest) + 1, highest))) - ids
        self._passed_over[table] = {number for number in skipped if number > oldest}
        return found

    def _learn_runs(self, numbers: set[int]) -> None:
        unknown = numbers - self._runs.keys()
        if not unknown:
            return
        query = select(runs.c.number, runs.c.body).where(runs.c.number.in_(unknown))
        for row in self.reader.rows(query):
            self._runs[row.number] = self.reader.decoded(codec.run_from_dict, row.body)
