"""The journal in one SQLite file: append-only, crash-safe, of bounded size, shared by several writers and readers.

>>> import pathlib, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> journal = SqliteJournal(pathlib.Path(folder.name, "run.sqlite"), retention={"full_detail_s": "12h"})
>>> journal.begin(Run(0.0, "static", {}, "latency p95 < 10s", "simulated", ("job",)))
1
>>> journal.noted(Event(0.0, "started", "a first event"))
>>> reader = SqliteJournal.read(journal.path)
>>> [event.detail for event in reader.events()]
['a first event']
>>> reader.close(), journal.close(), folder.cleanup()
(None, None, None)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy.dialects.sqlite import insert as upsert

from headgate.core.types import Event, Run
from headgate.journal import database
from headgate.journal.contract import Retention, retention_from
from headgate.journal.database import JournalReader
from headgate.journal.writer import FileWriter, JournalWriter

__all__ = ["Event", "Run", "SqliteJournal", "SqliteReader"]

_SAVE_STATE = upsert(database.states)
_SAVE_STATE = _SAVE_STATE.on_conflict_do_update(
    index_elements=["key"], set_={name: _SAVE_STATE.excluded[name] for name in ("written_s", "body")}
)


class SqliteReader(JournalReader):
    """A journal's file, to be read only, also while others write it; safe to use from any thread."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        super().__init__(database.open_reader(self.path), str(path))

    def _translated(self, done: str) -> AbstractContextManager[None]:
        return database.translated(self.path, done)


class SqliteJournal(JournalWriter):
    """A journal in a file; safe to use from any thread.

    One object is one writer with a run of its own. Several of them, in one process or in several, may write the same
    file.

    Args:
        path: The file; it is made where it does not exist, but its folder must.
        retention: How long entries are retained; plain values are accepted too, such as ``{"full_detail_s": "12h"}``.
        now: Seconds since the epoch, for the age of entries; the times in them may be simulated ones.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        retention: Retention | Mapping[str, object] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.retention = retention_from(retention)
        # The file is made by the writer, so it comes first.
        writing = FileWriter(self.path, self.retention, now)
        super().__init__(database.open_reader(self.path), str(path), writing, _SAVE_STATE)

    @staticmethod
    def read(path: Path | str) -> SqliteReader:
        """A journal's file, to be read only, also while another process writes it."""
        return SqliteReader(path)

    def _translated(self, done: str) -> AbstractContextManager[None]:
        return database.translated(self.path, done)
