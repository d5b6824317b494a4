"""What writes a journal's database; several writers of one process may share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

from headgate.core.errors import JournalError
from headgate.journal import database
from headgate.journal.retention import Retention
from headgate.journal.thinning import LOOK_EVERY, Thinning

SPARE_BYTES = 2_000_000
"""Room for what comes between two looks at the size of the file."""


Fence = Callable[[Connection], None]
"""Raises, in the transaction of a write, where its writer may not write any more."""


class Writing(Protocol):
    """Writes to a database, one transaction after the other; closed when nobody uses it any more."""

    @property
    def now(self) -> Callable[[], float]:
        """Seconds since the epoch, for the age of entries."""
        ...

    def transaction(self) -> AbstractContextManager[Connection]:
        """One transaction, committed at its end: what was acknowledged outlives the process."""
        ...

    def upkeep(self, connection: Connection, now_s: float) -> None:
        """Thin a little of what is old, in the transaction of an append."""
        ...

    def share(self) -> None:
        """One user more, who has to close it as well."""
        ...

    def close(self, let_go: Callable[[], None]) -> None:
        """One user less; the last one also lets go of what is read by."""
        ...


class FileWriter:
    """The one connection that writes a journal's file, one transaction at a time, and keeps it small."""

    def __init__(self, path: Path, retention: Retention, now: Callable[[], float]) -> None:
        self.path = path
        self.now = now
        limit_bytes = 1e6 * retention.max_file_mb - database.LOG_LIMIT_BYTES - SPARE_BYTES
        self._thinning = Thinning(retention, lambda connection: database.used_bytes(connection) > limit_bytes)
        self._lock = threading.Lock()
        self._users = 1
        self._appended = 0
        self._engine = database.open_writer(path)
        self.connection = self._engine.connect()

    def share(self) -> None:
        """One user more, who has to close it as well."""
        with self._lock:
            self._users += 1

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at its end: what was acknowledged outlives the process."""
        with self._lock, database.translated(self.path, "written"):
            if self._users == 0:
                raise JournalError(f"journal {self.path} is closed.")
            with self.connection.begin():
                yield self.connection
            self._appended += 1
            if self._appended % LOOK_EVERY == 0:
                database.cut_log_back(self.path, self._engine)

    def upkeep(self, connection: Connection, now_s: float) -> None:
        self._thinning.step(connection, now_s)

    def close(self, let_go: Callable[[], None]) -> None:
        """One user less. With the last one the file is let go of: by its readers first, so that no log is left."""
        with self._lock, database.translated(self.path, "closed"):
            self._users -= 1
            if self._users == 0:
                let_go()
                self.connection.close()
                self._engine.dispose()
