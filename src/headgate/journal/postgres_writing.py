"""What writes a journal in PostgreSQL; all writers of a process share its connections and its upkeep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select

from headgate.core.errors import JournalError
from headgate.journal.postgres_database import PostgresDatabase
from headgate.journal.retention import Retention
from headgate.journal.thinning import Thinning

_THINS = int.from_bytes(b"hgthin")
"""The advisory lock of whoever thins: two that did at once would remove the same rows, and wait for each other."""


class PostgresWriter:
    """Writes transactions side by side, each on a connection of its own; closed when nobody uses it any more."""

    def __init__(self, database: PostgresDatabase, retention: Retention, now: Callable[[], float]) -> None:
        self.now = now
        self._database = database
        self._thinning = Thinning(retention)
        self._thins = threading.Lock()
        self._lock = threading.Lock()
        self._users = 1

    def share(self) -> None:
        """One user more, who has to close it as well."""
        with self._lock:
            self._users += 1

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at its end: what was acknowledged outlives the process."""
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

    def close(self, let_go: Callable[[], None]) -> None:
        """One user less; with the last one all connections are closed."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                let_go()
