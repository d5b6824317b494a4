"""Keeps a journal small, a little at each append: one entry a minute or an hour of what is old, and no more in
all than there is room for.

Entries that say something new are ``Detail.LASTING`` from the start and stay as they are. The others begin as
``Detail.FULL``. When a minute of a run is old enough, the newest of each series in it is left and marked
``Detail.MINUTE``; later the same is done to hours. All that a step needs to know is in the file, so it does not matter
who did the one before it, or how long ago.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningDelete

from headgate.core.types import Instant
from headgate.journal import database
from headgate.journal.retention import HOUR_S, MINUTE_S, Detail, Retention

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
