"""The audit log: who changed what, why, from what to what. Only ever added to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from headgate.core.types import JSON, Instant
from headgate.journal.codec import from_json, to_json
from headgate.service.store.tables import audit


@dataclass(frozen=True, slots=True)
class Entry:
    """One change that somebody made."""

    number: int
    at_s: Instant
    who: str
    job: str
    """Empty where it is about the service itself."""
    what: str
    why: str
    before: JSON
    after: JSON


class AuditLog:
    def __init__(self, transaction: Callable[[], AbstractContextManager[Connection]], now: Callable[[], float]) -> None:
        self._transaction = transaction
        self._now = now

    def add(self, who: str, job: str, what: str, why: str, before: JSON, after: JSON) -> Entry:
        with self._transaction() as connection:
            return self.add_with(connection, who, job, what, why, before, after)

    def add_with(
        self, connection: Connection, who: str, job: str, what: str, why: str, before: JSON, after: JSON
    ) -> Entry:
        """The same in a transaction of somebody else's: a change and its entry are made together, or neither is."""
        at_s = self._now()
        values = {
            "at_s": at_s,
            "who": who,
            "job": job,
            "what": what,
            "why": why,
            "before": to_json(before),
            "after": to_json(after),
        }
        number = connection.execute(insert(audit).returning(audit.c.number), values).scalar_one()
        return Entry(number, at_s, who, job, what, why, before, after)

    def entries(self, *, job: str | None = None, before: int | None = None, last: int = 100) -> list[Entry]:
        """The newest entries, oldest first; those before a number where one is given."""
        query = select(audit).order_by(audit.c.number.desc()).limit(last)
        if job is not None:
            query = query.where(audit.c.job == job)
        if before is not None:
            query = query.where(audit.c.number < before)
        with self._transaction() as connection:
            rows = list(connection.execute(query))
        return [
            Entry(
                row.number, row.at_s, row.who, row.job, row.what, row.why, from_json(row.before), from_json(row.after)
            )
            for row in reversed(rows)
        ]
