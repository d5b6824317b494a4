"""The journal in a PostgreSQL database, for services that share it.

Every append is a transaction of its own. What is old is thinned as in files; how large the database may get is its own
matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from sqlalchemy.dialects.postgresql import insert as upsert

from headgate.journal import tables
from headgate.journal.postgres_database import PostgresDatabase
from headgate.journal.postgres_writing import PostgresWriter
from headgate.journal.reader import JournalReader
from headgate.journal.retention import Retention, retention_from
from headgate.journal.writer import JournalWriter

_SAVE_STATE = upsert(tables.states)
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
        retention: How long what is kept; ``max_file_mb`` is for files and has no meaning here.
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
