"""The database behind the PostgreSQL journal: connections, the schema with its tables, and its format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, exc, func, insert, inspect, schema, select

from headgate.core.errors import InputError, JournalError, UnwritableJournalError
from headgate.journal.database import WRITING
from headgate.journal.postgres_engine import MOST_CONNECTIONS, first_line, place_of, postgres_engine
from headgate.journal.tables import FORMAT, metadata

SCHEMA = "headgate"
"""All tables lie in it, so that the database can be shared with others."""
_SETS_UP = int.from_bytes(b"hgmake")
"""The advisory lock of whoever makes the tables."""

_format = Table("format", MetaData(), Column("version", Integer, nullable=False))


class PostgresDatabase:
    """A database by its URL, with all connections to it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.engine = self.another_engine(MOST_CONNECTIONS)
        self.place = place_of(self.engine)

    def another_engine(self, connections: int) -> Engine:
        """Connections apart from the others, for what must not wait for them; to be disposed of by whoever asked."""
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
