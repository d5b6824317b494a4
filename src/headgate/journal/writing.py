"""The one connection that writes a journal's file; several writers of one process may share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from headgate.core.errors import JournalError
from headgate.journal import database
from headgate.journal.retention import Retention
from headgate.journal.thinning import LOOK_EVERY, Thinning


class FileWriter:
    """Writes one transaction at a time, and keeps the file small; closed when nobody uses it any more."""

    def __init__(self, path: Path, retention: Retention, now: Callable[[], float]) -> None:
        self.path = path
        self.now = now
        self.thinning = Thinning(retention)
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

    def close(self, let_go: Callable[[], None]) -> None:
        """One user less. With the last one the file is let go of: by its readers first, so that no log is left."""
        with self._lock, database.translated(self.path, "closed"):
            self._users -= 1
            if self._users == 0:
                let_go()
                self.connection.close()
                self._engine.dispose()
