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

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, insert
from sqlalchemy.dialects.sqlite import insert as upsert

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Observation, Receipt, Run
from headgate.journal import codec, database
from headgate.journal.packing import packed
from headgate.journal.reader import JournalReader
from headgate.journal.repeats import Entry, gist_of
from headgate.journal.retention import Detail, Retention, retention_from
from headgate.journal.writing import FileWriter

_BEGIN = insert(database.runs).returning(database.runs.c.number)
_INSERT = {table: insert(table) for table in database.ENTRIES}
_SAVE_STATE = upsert(database.states)
_SAVE_STATE = _SAVE_STATE.on_conflict_do_update(
    index_elements=["key"], set_={name: _SAVE_STATE.excluded[name] for name in ("written_s", "body")}
)


class SqliteJournal(JournalReader):
    """A journal in a file; safe to use from any thread.

    One object is one writer with a run of its own. Several of them, in one process or in several, may write the same
    file.

    Args:
        path: The file; it is made where it does not exist, but its folder must.
        retention: How long what is kept; plain values are taken too, such as ``{"full_detail_s": "12h"}``.
        now: Seconds since the epoch, for the age of entries; the times told in them may be simulated ones.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        retention: Retention | Mapping[str, object] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.retention = retention_from(retention)
        # The file is made by the writer, so it comes first.
        self._file = FileWriter(Path(path), self.retention, now)
        super().__init__(path)
        self._run: int | None = None
        self._said: dict[tuple[Table, str], object] = {}
        """What the last entry of each series said."""

    def another(self) -> SqliteJournal:
        """A second writer with a run of its own, over the same connections: a thousand jobs need no thousand of them.

        Each is to be closed; the file is let go of with the last.
        """
        self._open()
        self._file.share()
        other = copy.copy(self)
        vars(other).update(_run=None, _said={})
        return other

    @staticmethod
    def read(path: Path | str) -> JournalReader:
        """A journal's file, to be read only, also while another process writes it."""
        return JournalReader(path)

    def begin(self, run: Run) -> int:
        values = {"job": run.job, "written_s": self._file.now(), "body": _body(codec.run_to_dict(run))}
        with self._write() as connection:
            number: int = connection.execute(_BEGIN, values).scalar_one()
        self._run = number
        self._said.clear()
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
        values = {"key": key, "written_s": self._file.now(), "body": _body(state)}
        with self._write() as connection:
            connection.execute(_SAVE_STATE, values)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._file.close(super().close)

    def _append(self, table: Table, entry: Entry, data: Mapping[str, JSON]) -> None:
        gist, body = gist_of(entry), _body(data)
        series = (table, gist.series)
        with self._write() as connection:
            if self._run is None:
                raise JournalError(f"nothing can be written to journal {self.path} before a run has begun.")
            now_s = self._file.now()
            is_new = gist.is_new or series not in self._said or self._said[series] != gist.says
            values = {
                "run": self._run,
                "at_s": entry.at_s,
                "written_s": now_s,
                "series": gist.series,
                "detail": Detail.LASTING if is_new else Detail.FULL,
                "body": body,
            }
            connection.execute(_INSERT[table], values)
            self._file.thinning.step(connection, now_s)
        self._said[series] = gist.says

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        self._open()
        with self._file.transaction() as connection:
            yield connection


def _body(data: Mapping[str, JSON]) -> bytes:
    return packed(codec.to_json(data))
