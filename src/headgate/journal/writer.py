"""The journal in one SQLite file, and the writing half of every journal in a database.

It is append-only, crash-safe, of bounded size, and shared by several writers and readers. Each entry is one
transaction, which outlives the process.

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
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Engine,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningDelete

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Role, Run
from headgate.journal import codec, database
from headgate.journal.codec import packed
from headgate.journal.contract import HOUR_S, MINUTE_S, Detail, Retention, retention_from
from headgate.journal.database import JournalReader

AT_MOST = 250
"""Entries removed in one step, which bounds what an append costs."""
LOOK_EVERY = 25
"""Appends between two looks at the size of the file."""
FEWEST = 1000
"""Entries that stay whatever the size of the file: it may be learned state that takes the room."""

_SPAN_S = {Detail.MINUTE: MINUTE_S, Detail.HOUR: HOUR_S}
"""The stretch of time that an entry stands for."""


@dataclass(slots=True)
class _Chore:
    """What becomes of one kind of entries when the oldest of them is old enough."""

    table: Table
    of: Detail
    into: Detail | None
    """``None``: they are removed."""
    after_s: float
    due_s: float = 0.0
    """Nothing is looked for before this, by the wall clock."""


class Thinning:
    """The upkeep of one file or database by one of its writers.

    ``is_full`` says whether there is too much in all; without it there can't be.
    """

    def __init__(self, retention: Retention, is_full: Callable[[Connection], bool] | None = None) -> None:
        self._is_full = is_full
        self._appended = 0
        steps: list[tuple[Detail, Detail | None, float]] = [
            (Detail.FULL, Detail.MINUTE, retention.full_detail_s),
            (Detail.MINUTE, Detail.HOUR, retention.minutes_s),
        ]
        if retention.hours_s is not None:
            steps.append((Detail.HOUR, None, retention.hours_s))
        self._chores = [_Chore(table, *step) for step in steps for table in database.ENTRIES]

    def is_due(self, now_s: float) -> bool:
        """Whether there may be something to do by now."""
        return min(chore.due_s for chore in self._chores) <= now_s

    def step(self, connection: Connection, now_s: float) -> None:
        """Do at most one thing that is due; to be called in the transaction of every append."""
        self._appended += 1
        if self._is_full is not None and self._appended % LOOK_EVERY == 0 and self._is_full(connection):
            _make_room(connection)
        chore = min(self._chores, key=lambda each: each.due_s)
        if chore.due_s <= now_s:
            chore.due_s = _do(connection, chore, now_s)


def _do(connection: Connection, chore: _Chore, now_s: float) -> float:
    """Do a chore if it is due; gives when to look again."""
    span_s = MINUTE_S if chore.into is None else _SPAN_S[chore.into]
    oldest = _oldest(connection, chore.table, chore.of)
    if oldest is None:
        return now_s + span_s
    run, at_s, written_s = oldest
    # The whole stretch must be old enough, not only its first entry.
    due_s = written_s + chore.after_s + span_s
    if due_s > now_s:
        return due_s
    if chore.into is None:
        _remove(connection, chore.table, before_s=now_s - chore.after_s)
    else:
        _thin(connection, chore.table, chore.into, run, at_s)
    return now_s


def _make_room(connection: Connection) -> None:
    """Give up more entries than come until the next look, of the detail that there is too much of."""
    counts = {
        (table, Detail(detail)): count
        for table in database.ENTRIES
        for detail, count in connection.execute(select(table.c.detail, func.count()).group_by(table.c.detail))
    }
    total = sum(counts.values())
    shares = {detail: sum(n for (_, of), n in counts.items() if of is detail) / max(1, total) for detail in Detail}
    if shares[Detail.FULL] > 1 / 2:
        too_many = {Detail.FULL}
    elif shares[Detail.MINUTE] > 1 / 4:
        too_many = {Detail.MINUTE}
    else:
        too_many = {Detail.HOUR, Detail.LASTING}
    table = max(database.ENTRIES, key=lambda entries: sum(counts.get((entries, detail), 0) for detail in too_many))
    left = total
    while left > max(FEWEST, total - 2 * LOOK_EVERY):
        removed = _give_up(connection, table, min(too_many))
        if not removed:
            return
        left -= removed


def _give_up(connection: Connection, table: Table, detail: Detail) -> int:
    """Thin the oldest stretch that has this detail as far as it takes to remove something."""
    oldest = _oldest(connection, table, detail)
    for into in _SPAN_S:
        if oldest is not None and detail < into and (removed := _thin(connection, table, into, *oldest[:2])):
            return removed
    return _remove(connection, table)


def _oldest(connection: Connection, table: Table, detail: Detail) -> tuple[int, Instant, float] | None:
    """The run of the oldest entry of a detail, its time there, and when it was written."""
    found = connection.execute(_oldest_of(table, detail)).first()
    return None if found is None else (found.run, found.at_s, found.written_s)


def _thin(connection: Connection, table: Table, into: Detail, run: int, at_s: Instant) -> int:
    """Leave the newest of each series in a minute or an hour of a run; gives how many entries went."""
    span_s = _SPAN_S[into]
    start_s = at_s // span_s * span_s
    stretch = {"of_run": run, "start_s": start_s, "end_s": start_s + span_s, "into": into}
    thin, mark = _thinning_of(table)
    removed = connection.execute(thin, {**stretch, "at_most": AT_MOST}).rowcount
    if removed < AT_MOST:
        connection.execute(mark, stretch)
    return removed


def _remove(connection: Connection, table: Table, before_s: float = math.inf) -> int:
    """Remove the oldest entries that were written before a time, and runs of which nothing is left."""
    removed = connection.execute(_removal_of(table), {"before_s": before_s, "at_most": AT_MOST}).all()
    _remove_empty(connection, {row.run for row in removed})
    return len(removed)


def _remove_empty(connection: Connection, numbers: Iterable[int]) -> None:
    """Remove those of some runs that have no entries left; the newest run of each job stays."""
    runs = database.runs
    later = aliased(runs)
    is_empty = and_(*(~exists().where(table.c.run == runs.c.number) for table in database.ENTRIES))
    is_followed = exists().where(later.c.job == runs.c.job, later.c.number > runs.c.number)
    connection.execute(delete(runs).where(runs.c.number.in_(sorted(numbers)), is_empty, is_followed))


# -------------------------------------------------------------------------------------- statements, each made only once


@cache
def _oldest_of(table: Table, detail: Detail) -> Select[tuple[int, float, float]]:
    of_detail = _settled(table) if detail is Detail.HOUR else table.c.detail == detail
    return select(table.c.run, table.c.at_s, table.c.written_s).where(of_detail).order_by(table.c.id).limit(1)


@cache
def _thinning_of(table: Table) -> tuple[Delete, Update]:
    """Removes all but the newest of each series in a stretch of time, and marks what is left."""
    stretch = and_(
        table.c.run == bindparam("of_run"),
        table.c.at_s >= bindparam("start_s"),
        table.c.at_s < bindparam("end_s"),
        table.c.detail < bindparam("into"),
    )
    newest = select(func.max(table.c.id)).where(stretch).group_by(table.c.series)
    others = select(table.c.id).where(stretch, table.c.id.not_in(newest)).limit(bindparam("at_most"))
    return delete(table).where(table.c.id.in_(others)), update(table).where(stretch).values(detail=bindparam("into"))


@cache
def _removal_of(table: Table) -> ReturningDelete[tuple[int]]:
    is_old = and_(_settled(table), table.c.written_s < bindparam("before_s"))
    oldest = select(table.c.id).where(is_old).order_by(table.c.id).limit(bindparam("at_most"))
    return delete(table).where(table.c.id.in_(oldest)).returning(table.c.run)


def _settled(table: Table) -> ColumnElement[bool]:
    """Entries that will not be thinned any more; written so that they are looked for where they lie, at the start."""
    return (table.c.detail + 0) >= Detail.HOUR


Entry: TypeAlias = Observation | Decision | Receipt | Event


@dataclass(frozen=True, slots=True)
class Gist:
    """What is compared of an entry."""

    series: str
    """Only entries of the same kind and series can repeat each other."""
    says: object
    is_new: bool = False
    """It says something new whatever came before it."""


def gist_of(entry: Entry) -> Gist:
    """
    >>> gist_of(Event(5.0, "observe-failed", "no answer"))
    Gist(series='observe-failed', says='no answer', is_new=False)
    """
    match entry:
        case Observation(instances=instances, startups=startups):
            return Gist("", dict(instances), is_new=bool(startups))
        case Decision(role=Role.SHADOW):
            return Gist(entry.policy, None)
        case Decision(verdicts=verdicts):
            return Gist("", {name: (verdict.current, verdict.target) for name, verdict in verdicts.items()})
        case Receipt(answers=answers):
            return Gist("", {name: (answer.outcome, answer.requested) for name, answer in answers.items()})
        case Event(kind=kind, detail=detail):
            return Gist(kind, detail)


SPARE_BYTES = 2_000_000
"""Room for what comes between two looks at the size of the file."""


Fence = Callable[[Connection], None]
"""Raises, in the transaction of a write, where its writer may not write any more."""


class Writing(ABC):
    """Writes to a database; closed with its last user. ``now`` are seconds since the epoch, for the age of entries."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._users = 1

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """One transaction, committed at its end: what was acknowledged outlives the process."""

    @abstractmethod
    def upkeep(self, connection: Connection, now_s: float) -> None:
        """Thin a little of what is old, in the transaction of an append."""

    def share(self) -> None:
        """One user more, who has to close it as well."""
        with self._lock:
            self._users += 1

    def close(self, close_readers: Callable[[], None]) -> None:
        """One user less; with the last one all connections are closed, those of readers first."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._disconnect(close_readers)

    def _disconnect(self, close_readers: Callable[[], None]) -> None:
        close_readers()


class FileWriter(Writing):
    """The one connection that writes a journal's file, one transaction at a time, and keeps it small."""

    def __init__(self, path: Path, retention: Retention, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.path = path
        limit_bytes = 1e6 * retention.max_file_mb - database.LOG_LIMIT_BYTES - SPARE_BYTES
        self._thinning = Thinning(retention, lambda connection: database.used_bytes(connection) > limit_bytes)
        self._appended = 0
        self._engine = database.open_writer(path)
        self.connection = self._engine.connect()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
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

    def close(self, close_readers: Callable[[], None]) -> None:
        """One user less. With the last one the file is closed: by its readers first, so that no log is left."""
        with database.translated(self.path, "closed"):
            super().close(close_readers)

    def _disconnect(self, close_readers: Callable[[], None]) -> None:
        super()._disconnect(close_readers)
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

        Each is to be closed; the database is let go of with the last. A ``fence`` is called in the transaction of every
        write, and what it raises undoes all of it.
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
