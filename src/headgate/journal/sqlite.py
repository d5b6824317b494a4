"""The journal in one SQLite file: append-only, crash-safe, bounded by age and by number, read while it is written.

>>> import pathlib, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> journal = SqliteJournal(pathlib.Path(folder.name, "run.sqlite"))
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

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, and_, delete, exists, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal import codec, database
from headgate.journal.reader import JournalReader

DEFAULT_RETENTION_S = 7 * 86400.0
DEFAULT_MAX_ENTRIES = 500_000
PRUNE_EVERY = 500
"""Appends between two looks for what is too old, so that an append costs the same however long the file is."""
PRUNE_AT_MOST = 4 * PRUNE_EVERY
"""Entries of a kind removed in one go: more than can have come since the last time, yet soon done."""

_BEGIN = insert(database.runs).returning(database.runs.c.number)
_INSERT = {table: insert(table) for table in database.ENTRIES}
_SAVE_STATE = upsert(database.states)
_SAVE_STATE = _SAVE_STATE.on_conflict_do_update(
    index_elements=["key"], set_={name: _SAVE_STATE.excluded[name] for name in ("written_s", "body")}
)


class SqliteJournal(JournalReader):
    """A journal in a file; safe to use from any thread.

    Args:
        path: The file; it is made where it does not exist, but its folder must.
        retention_s: Entries written longer ago than this are removed, in seconds.
        max_entries: Of each kind of entry only this many are kept, however young they are.
        now: Seconds since the epoch, for the age of entries; the times told in them may be simulated ones.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        retention_s: float = DEFAULT_RETENTION_S,
        max_entries: int = DEFAULT_MAX_ENTRIES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.retention_s = retention_s
        self.max_entries = max_entries
        self._now = now
        self._lock = threading.Lock()
        self._run: int | None = None
        self._appended = 0
        # The file is made by the writer, so it comes first.
        self._writing = database.open_writer(Path(path))
        super().__init__(path)
        self._writer = self._writing.connect()

    @staticmethod
    def read(path: Path | str) -> JournalReader:
        """A journal's file, to be read only, also while another process writes it."""
        return JournalReader(path)

    def begin(self, run: Run) -> int:
        values = {"written_s": self._now(), "body": codec.to_json(codec.run_to_dict(run))}
        with self._write() as connection:
            number: int = connection.execute(_BEGIN, values).scalar_one()
            self._prune(connection)
        self._run = number
        return number

    def observed(self, observation: Observation) -> None:
        self._append(database.observations, observation.at_s, codec.observation_to_dict(observation))

    def decided(self, decision: Decision) -> None:
        self._append(database.decisions, decision.at_s, codec.decision_to_dict(decision))

    def received(self, receipt: Receipt) -> None:
        self._append(database.receipts, receipt.at_s, codec.receipt_to_dict(receipt))

    def noted(self, event: Event) -> None:
        self._append(database.events, event.at_s, codec.event_to_dict(event))

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        values = {"key": key, "written_s": self._now(), "body": codec.to_json(state)}
        with self._write() as connection:
            connection.execute(_SAVE_STATE, values)

    def close(self) -> None:
        with self._lock, database.translated(self.path, "closed"):
            super().close()
            self._writer.close()
            self._writing.dispose()

    def _append(self, table: Table, at_s: Instant, data: Mapping[str, JSON]) -> None:
        body = codec.to_json(data)
        with self._write() as connection:
            values = {"run": self._current_run(connection), "at_s": at_s, "written_s": self._now(), "body": body}
            connection.execute(_INSERT[table], values)
            self._appended += 1
            if self._appended % PRUNE_EVERY == 0:
                self._prune(connection)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """One transaction, committed at its end: what was acknowledged outlives the process."""
        with self._lock:
            self._open()
            with database.translated(self.path, "written"), self._writer.begin():
                yield self._writer

    def _current_run(self, connection: Connection) -> int:
        if self._run is None:
            self._run = connection.execute(select(func.max(database.runs.c.number))).scalar_one()
        if self._run is None:
            raise JournalError(f"nothing can be written to journal {self.path} before a run has begun.")
        return self._run

    def _prune(self, connection: Connection) -> None:
        oldest_s = self._now() - self.retention_s
        for table in database.ENTRIES:
            # Only the oldest are looked at: they lie first, and a scan of the whole file would take too long.
            first = select(table.c.id, table.c.written_s).order_by(table.c.id).limit(PRUNE_AT_MOST).subquery()
            newest = select(func.max(table.c.id)).scalar_subquery()
            old = select(first.c.id).where((first.c.written_s < oldest_s) | (first.c.id <= newest - self.max_entries))
            connection.execute(delete(table).where(table.c.id.in_(old)))
        self._prune_runs(connection, oldest_s)

    def _prune_runs(self, connection: Connection, oldest_s: float) -> None:
        number = database.runs.c.number
        empty = and_(*(~exists().where(table.c.run == number) for table in database.ENTRIES))
        newest = select(func.max(number)).scalar_subquery()
        connection.execute(delete(database.runs).where(database.runs.c.written_s < oldest_s, empty, number != newest))
