"""The writing half of a journal in a database: one transaction for each entry, which outlives the process."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from sqlalchemy import Connection, Engine, Insert, Table, insert

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Observation, Receipt, Run
from headgate.journal import codec, tables
from headgate.journal.packing import packed
from headgate.journal.reader import JournalReader
from headgate.journal.repeats import Entry, gist_of
from headgate.journal.retention import Detail
from headgate.journal.writing import Fence, Writing

_BEGIN = insert(tables.runs).returning(tables.runs.c.number)
_INSERT = {table: insert(table) for table in tables.ENTRIES}


class JournalWriter(JournalReader):
    """One writer with a run of its own. ``save_state`` keeps learned state, in the words of its database."""

    def __init__(self, reading: Engine, place: str, writing: Writing, save_state: Insert) -> None:
        super().__init__(reading, place)
        self._writing = writing
        self._save_state = save_state
        self._fence: Fence | None = None
        self._run: int | None = None
        self._said: dict[tuple[Table, str], object] = {}
        """What the last entry of each series said."""

    def another(self, fence: Fence | None = None) -> Self:
        """A second writer with a run of its own, over the same connections: a thousand jobs need no thousand of them.

        Each is to be closed; the database is let go of with the last. A ``fence`` is asked in the transaction of every
        write whether it may be made, and what it raises undoes all of it.
        """
        self._open()
        self._writing.share()
        other = copy.copy(self)
        vars(other).update(_run=None, _said={}, _fence=fence)
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
        self._said.clear()
        return number

    def observed(self, observation: Observation) -> None:
        self._append(tables.observations, observation, codec.observation_to_dict(observation))

    def decided(self, decision: Decision) -> None:
        self._append(tables.decisions, decision, codec.decision_to_dict(decision))

    def received(self, receipt: Receipt) -> None:
        self._append(tables.receipts, receipt, codec.receipt_to_dict(receipt))

    def noted(self, event: Event) -> None:
        self._append(tables.events, event, codec.event_to_dict(event))

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
            self._writing.upkeep(connection, now_s)
        self._said[series] = gist.says


def _body(data: Mapping[str, JSON]) -> bytes:
    return packed(codec.to_json(data))
