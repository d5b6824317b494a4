"""The writing half of a journal in a database: one transaction for each entry, which outlives the process."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, Self

from sqlalchemy import Connection, Engine, Insert, Table, insert

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Observation, Receipt, Run
from headgate.journal import codec, database
from headgate.journal.codec import packed
from headgate.journal.reader import JournalReader
from headgate.journal.repeats import Entry, gist_of
from headgate.journal.retention import Detail, Retention
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


_BEGIN = insert(database.runs).returning(database.runs.c.number)
_INSERT = {table: insert(table) for table in database.ENTRIES}


class JournalWriter(JournalReader):
    """One writer with a run of its own. ``save_state`` keeps learned state, in the words of its database."""

    def __init__(self, reading: Engine, place: str, writing: Writing, save_state: Insert) -> None:
        super().__init__(reading, place)
        self._writing = writing
        self._save_state = save_state
        self._fence: Fence | None = None
        self._run: int | None = None
        self._last_bodies: dict[tuple[Table, str], object] = {}
        """What the last entry of each series said."""

    def another(self, fence: Fence | None = None) -> Self:
        """A second writer with a run of its own, over the same connections: a thousand jobs need no thousand of them.

        Each is to be closed; the database is let go of with the last. A ``fence`` is asked in the transaction of every
        write whether it may be made, and what it raises undoes all of it.
        """
        self._open()
        self._writing.share()
        other = copy.copy(self)
        vars(other).update(_run=None, _last_bodies={}, _fence=fence)
        return other

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._writing.close(super().close)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        self._open()
        with self._writing.transaction() as connection:
            if self._fence is not None:
                self._fence(connection)
            yield connection

    def begin(self, run: Run) -> int:
        values = {"job": run.job, "written_s": self._writing.now(), "body": _body(codec.run_to_dict(run))}
        with self._write() as connection:
            number: int = connection.execute(_BEGIN, values).scalar_one()
        self._run = number
        self._last_bodies.clear()
        return number

    def observed(self, observation: Observation) -> None:
        self._append(database.observations, observation, codec.observation_to_dict(observation))

    def decided(self, decision: Decision) -> None:
        self._append(database.decisions, decision, codec.decision_to_dict(decision))

    def received(self, receipt: Receipt) -> None:
        self._append(database.receipts, receipt, codec.receipt_to_dict(receipt))

    def noted(self, event: Event) -> None:
        self._append(database.events, event, codec.event_to_dict(event))

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        values = {"key": key, "written_s": self._writing.now(), "body": _body(state)}
        with self._write() as connection:
            connection.execute(self._save_state, values)

    def _append(self, table: Table, entry: Entry, data: Mapping[str, JSON]) -> None:
        gist, body = gist_of(entry), _body(data)
        series = (table, gist.series)
        with self._write() as connection:
            if self._run is None:
                raise JournalError(f"nothing can be written to journal {self.place} before a run has begun.")
            now_s = self._writing.now()
            is_new = gist.is_new or series not in self._last_bodies or self._last_bodies[series] != gist.says
            values = {
                "run": self._run,
                "at_s": entry.at_s,
                "written_s": now_s,
                "series": gist.series,
                "detail": Detail.LASTING if is_new else Detail.FULL,
                "body": body,
            }
            connection.execute(_INSERT[table], values)
            self._writing.upkeep(connection, now_s)
        self._last_bodies[series] = gist.says


def _body(data: Mapping[str, JSON]) -> bytes:
    return packed(codec.to_json(data))
