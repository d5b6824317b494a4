"""The changes in force, made while jobs run in place of what the file says, and the audit log of all changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select

from headgate.core.types import JSON, Instant
from headgate.journal.codec import from_json, to_json
from headgate.service.store.tables import audit, changes


class ChangeKind(StrEnum):
    """What can be changed while a job runs, with the meaning of a change's name where there may be several."""

    PAUSE = "pause"
    """An operator, or all of them (``*``)."""
    SIZE = "size"
    """An operator whose size is forced."""
    MODE = "mode"
    PERIOD = "period"
    """A period of the week, by a name of its own."""
    POLICY = "policy"
    BOUNDS = "bounds"
    """An operator."""
    OBJECTIVE = "objective"


@dataclass(frozen=True, slots=True)
class JobChange:
    """One change in force."""

    job: str
    kind: ChangeKind
    name: str
    body: JSON
    at_s: Instant
    who: str
    why: str
    until_s: Instant | None = None

    def holds_at(self, at_s: Instant) -> bool:
        return self.until_s is None or at_s < self.until_s


class Changes:
    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]], now: Callable[[], float]) -> None:
        self._reading = reading
        self._now = now

    def put_with(self, connection: Connection, change: JobChange) -> None:
        """Save a change in place of the one of the same kind and name."""
        connection.execute(delete(changes).where(_same(change.job, change.kind, change.name)))
        connection.execute(
            insert(changes).values(
                job=change.job,
                kind=str(change.kind),
                name=change.name,
                body=to_json(change.body),
                at_s=change.at_s,
                until_s=change.until_s,
                who=change.who,
                why=change.why,
            )
        )

    def remove_with(self, connection: Connection, job: str, kind: ChangeKind, name: str) -> None:
        connection.execute(delete(changes).where(_same(job, kind, name)))

    def of(self, job: str) -> tuple[JobChange, ...]:
        """Return the changes of a job that hold now, oldest first."""
        return self._found(changes.c.job == job)

    def by_job(self) -> dict[str, tuple[JobChange, ...]]:
        """Return the changes of all jobs that hold now, oldest first."""
        found: dict[str, tuple[JobChange, ...]] = {}
        for change in self._found():
            found[change.job] = (*found.get(change.job, ()), change)
        return found

    def _found(self, *conditions: ColumnElement[bool]) -> tuple[JobChange, ...]:
        holds = or_(changes.c.until_s.is_(None), changes.c.until_s > self._now())
        query = select(changes).where(holds, *conditions).order_by(changes.c.at_s)
        with self._reading() as connection:
            return tuple(
                JobChange(
                    row.job,
                    ChangeKind(row.kind),
                    row.name,
                    from_json(row.body),
                    row.at_s,
                    row.who,
                    row.why,
                    row.until_s,
                )
                for row in connection.execute(query)
            )


def _same(job: str, kind: ChangeKind, name: str) -> ColumnElement[bool]:
    return and_(changes.c.job == job, changes.c.kind == str(kind), changes.c.name == name)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One entry of the audit log."""

    number: int
    at_s: Instant
    who: str
    job: str
    """Empty if it concerns the service itself."""
    what: str
    why: str
    before: JSON
    after: JSON


class AuditLog:
    def __init__(self, transaction: Callable[[], AbstractContextManager[Connection]], now: Callable[[], float]) -> None:
        self._transaction = transaction
        self._now = now

    def add(self, who: str, job: str, what: str, why: str, before: JSON, after: JSON) -> AuditRecord:
        with self._transaction() as connection:
            return self.add_with(connection, who, job, what, why, before, after)

    def add_with(
        self, connection: Connection, who: str, job: str, what: str, why: str, before: JSON, after: JSON
    ) -> AuditRecord:
        """Add an entry in the transaction of the change itself, so that both are made or neither is."""
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
        return AuditRecord(number, at_s, who, job, what, why, before, after)

    def entries(self, *, job: str | None = None, before: int | None = None, last: int = 100) -> list[AuditRecord]:
        """Return the newest entries, oldest first; if a number is given, those before it."""
        query = select(audit).order_by(audit.c.number.desc()).limit(last)
        if job is not None:
            query = query.where(audit.c.job == job)
        if before is not None:
            query = query.where(audit.c.number < before)
        with self._transaction() as connection:
            rows = list(connection.execute(query))
        return [
            AuditRecord(
                row.number, row.at_s, row.who, row.job, row.what, row.why, from_json(row.before), from_json(row.after)
            )
            for row in reversed(rows)
        ]
