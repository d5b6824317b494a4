"""Follows a journal that others write, in a database: what is new of all jobs, and nothing twice.

Entries are numbered when they are written and seen when they are committed, so one may appear after another that has a
higher number. Numbers that were passed over are asked for again for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Table, func, or_, select

from headgate.core.types import Decision, Observation, Receipt, Run
from headgate.journal import codec, tables
from headgate.journal.reader import JournalReader

Entry: TypeAlias = Observation | Decision | Receipt

AT_ONCE = 2000
"""Entries of a kind that are read at once, so that nobody has to wait for long."""
ASKED_AGAIN = 1000
"""A number that was passed over is asked for until so many higher ones were given."""
_KINDS: Mapping[Table, Callable[[Mapping[str, Any]], Entry]] = {
    tables.observations: codec.observation_from_dict,
    tables.decisions: codec.decision_from_dict,
    tables.receipts: codec.receipt_from_dict,
}


@dataclass(frozen=True, slots=True)
class News:
    """An entry that is new, and its run."""

    number: int
    run: Run
    entry: Entry


class Following:
    """What is written from now on to the journal that ``reader`` reads."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader
        self._newest = {table: self._newest_id(table) for table in _KINDS}
        self._passed_over: dict[Table, set[int]] = {table: set() for table in _KINDS}
        self._runs: dict[int, Run] = {}

    def news(self) -> list[News]:
        """What was written since this was last asked: observations, decisions, then receipts, each in their order.

        Not all of it where that is much; nothing is left when it gives nothing.
        """
        return [one for table in _KINDS for one in self._of(table)]

    def close(self) -> None:
        self.reader.close()

    def _newest_id(self, table: Table) -> int:
        return next(iter(self.reader.rows(select(func.max(table.c.id).label("newest"))))).newest or 0

    def _of(self, table: Table) -> list[News]:
        newest, passed_over = self._newest[table], self._passed_over[table]
        is_new = or_(table.c.id > newest, table.c.id.in_(passed_over))
        query = select(table.c.id, table.c.run, table.c.body).where(is_new).order_by(table.c.id).limit(AT_ONCE)
        rows = list(self.reader.rows(query))
        if not rows:
            return []
        self._learn_runs({row.run for row in rows})
        found = [
            News(row.run, self._runs[row.run], self.reader.decoded(_KINDS[table], row.body))
            for row in rows
            if row.run in self._runs
        ]
        ids = {row.id for row in rows}
        self._newest[table] = highest = max(newest, *ids)
        oldest = highest - ASKED_AGAIN
        skipped = (passed_over | set(range(max(newest, oldest) + 1, highest))) - ids
        self._passed_over[table] = {number for number in skipped if number > oldest}
        return found

    def _learn_runs(self, numbers: set[int]) -> None:
        unknown = numbers - self._runs.keys()
        if not unknown:
            return
        query = select(tables.runs.c.number, tables.runs.c.body).where(tables.runs.c.number.in_(unknown))
        for row in self.reader.rows(query):
            self._runs[row.number] = self.reader.decoded(codec.run_from_dict, row.body)
