"""The reading half of a journal in a database; it changes nothing and never waits for writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Engine, Row, Select, Table, func, or_, select

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal import codec, database
from headgate.journal.codec import unpacked
from headgate.journal.contract import Detail, Runs, Thinned, last_sizes

T = TypeVar("T")


class JournalReader(ABC):
    """A journal in a database, to be read only, also while others write it; safe to use from any thread."""

    def __init__(self, engine: Engine, place: str) -> None:
        self.place = place
        """Where it is, for messages: a file, or a URL without its password."""
        self._reading = engine
        self._closed = False

    @abstractmethod
    def _translated(self, done: str) -> AbstractContextManager[None]:
        """Turns what the database raises into a ``JournalError`` of one sentence."""

    def jobs(self) -> list[str]:
        """The names of the jobs that have a run here, the one that began a run last at the end."""
        runs = database.runs
        query = select(runs.c.job).group_by(runs.c.job).order_by(func.max(runs.c.number))
        return [row.job for row in self.rows(query)]

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        """The runs that are still there, by number."""
        return [self._numbered(row) for row in reversed(list(self.rows(_newest_runs(job))))]

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        """The run that began last."""
        return next((self._numbered(row) for row in self.rows(_newest_runs(job).limit(1))), None)

    def last_sizes(self, job: str) -> dict[str, int]:
        """The planned size that each operator of a job's newest run had last, as far as it is known."""

        def newest_first(run: int) -> Generator[Observation]:
            for row in self.rows(_newest_entries(database.observations, run)):
                yield self.decoded(codec.observation_from_dict, row.body)

        return last_sizes(self, job, newest_first)

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        """When the first and the last observation at or after a time were made, by run of a job, oldest run first."""
        seen, runs = database.observations, database.runs
        of_job = select(runs.c.number).where(runs.c.job == job)
        span = select(seen.c.run, func.min(seen.c.at_s).label("first_s"), func.max(seen.c.at_s).label("last_s"))
        query = span.where(seen.c.run.in_(of_job), seen.c.at_s >= since_s).group_by(seen.c.run).order_by(seen.c.run)
        return {row.run: (row.first_s, row.last_s) for row in self.rows(query)}

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]:
        return self._entries(database.observations, codec.observation_from_dict, run, since_s)

    def decisions(self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None) -> list[Decision]:
        return self._entries(database.decisions, codec.decision_from_dict, run, since_s, last)

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        return self._entries(database.receipts, codec.receipt_from_dict, run, since_s)

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        return self._entries(database.events, codec.event_from_dict, run, since_s)

    def thinned(self, *, run: int | None = None) -> Thinned:
        """Where entries of a run are no longer all there, because they are old."""
        until_s: dict[int, Instant] = {}
        for table in database.ENTRIES:
            thin = table.c.detail.in_((Detail.MINUTE, Detail.HOUR))
            query = select(table.c.detail, func.max(table.c.at_s).label("until_s")).group_by(table.c.detail)
            for row in self.rows(query.where(table.c.run == _number(run), thin)):
                until_s[row.detail] = max(row.until_s, until_s.get(row.detail, row.until_s))
        return Thinned(until_s.get(Detail.MINUTE), until_s.get(Detail.HOUR))

    def load_state(self, key: str) -> Mapping[str, JSON] | None:
        query = select(database.states.c.body).where(database.states.c.key == key)
        return next((self.decoded(dict, row.body, is_state=True) for row in self.rows(query)), None)

    def load_states(self, keys: Collection[str]) -> dict[str, Mapping[str, JSON]]:
        """The states of some keys, read at once; keys without one are left out."""
        query = select(database.states.c.key, database.states.c.body).where(database.states.c.key.in_(keys))
        return {row.key: self.decoded(dict, row.body, is_state=True) for row in self.rows(query)}

    def state_keys(self) -> list[str]:
        """The keys that there is state under, the one saved last at the end."""
        states = database.states
        return [row.key for row in self.rows(select(states.c.key).order_by(states.c.written_s, states.c.key))]

    def close(self) -> None:
        """Let go of the database; calling it twice is fine."""
        self._closed = True
        self._reading.dispose()

    def _open(self) -> Engine:
        if self._closed:
            raise JournalError(f"journal {self.place} is closed.")
        return self._reading

    def rows(self, query: Select[Any]) -> Iterator[Row[Any]]:
        """What is found, read as it is taken."""
        with self._translated("read"), self._open().connect() as connection:
            yield from connection.execute(query)

    def _entries(
        self,
        table: Table,
        decode: Callable[[Mapping[str, JSON]], T],
        run: Runs,
        since_s: Instant | None,
        last: int | None = None,
    ) -> list[T]:
        query = _newest_entries(table, run).limit(last)
        if since_s is not None:
            query = query.where(table.c.at_s >= since_s)
        rows = list(self.rows(query))
        return [self.decoded(decode, row.body) for row in reversed(rows)]

    def _numbered(self, row: Row[Any]) -> tuple[int, Run]:
        return row.number, self.decoded(codec.run_from_dict, row.body)

    def decoded(self, decode: Callable[[Mapping[str, JSON]], T], body: bytes, *, is_state: bool = False) -> T:
        """What an entry says; ``JournalError`` where it is damaged."""
        try:
            return decode(codec.from_json(unpacked(body, is_state=is_state)))
        except (JournalError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            cause = str(error).rstrip(".")
            raise JournalError(f"journal {self.place} has a damaged entry of {len(body)} bytes: {cause}.") from error


def _newest_runs(job: str | None) -> Select[Any]:
    runs = database.runs
    query = select(runs.c.number, runs.c.body).order_by(runs.c.number.desc())
    return query if job is None else query.where(runs.c.job == job)


def _newest_entries(table: Table, run: Runs) -> Select[Any]:
    """Backwards, so that the last few of a long run are found without reading all of it."""
    is_its = table.c.run.in_(run) if isinstance(run, Collection) else table.c.run == _number(run)
    query = select(table.c.body).where(is_its)
    return query.order_by(table.c.at_s.desc(), table.c.id.desc())


def _number(run: int | None) -> Any:
    """The number of a run; that of the newest where none is given."""
    return select(func.max(database.runs.c.number)).scalar_subquery() if run is None else run


Entry: TypeAlias = Observation | Decision | Receipt

AT_ONCE = 2000
"""Entries of a kind that are read at once, so that nobody has to wait for long."""
MAX_GAP = 1000
"""A number that was passed over is looked for until so many higher ones have been found."""
_KINDS: Mapping[Table, Callable[[Mapping[str, Any]], Entry]] = {
    database.observations: codec.observation_from_dict,
    database.decisions: codec.decision_from_dict,
    database.receipts: codec.receipt_from_dict,
}


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that is new, and its run."""

    number: int
    run: Run
    entry: Entry


class JournalFollower:
    """What is written from now on to the journal that ``reader`` reads."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader
        self._newest = {table: self._newest_id(table) for table in _KINDS}
        self._passed_over: dict[Table, set[int]] = {table: set() for table in _KINDS}
        self._runs: dict[int, Run] = {}

    def new_entries(self) -> list[NewEntry]:
        """What was written since the last call: observations, decisions, then receipts, each in their order.

        Not all of it where that is much; nothing is left when it gives nothing.
        """
        return [entry for table in _KINDS for entry in self._of(table)]

    def close(self) -> None:
        self.reader.close()

    def _newest_id(self, table: Table) -> int:
        return next(iter(self.reader.rows(select(func.max(table.c.id).label("newest"))))).newest or 0

    def _of(self, table: Table) -> list[NewEntry]:
        newest, passed_over = self._newest[table], self._passed_over[table]
        is_new = or_(table.c.id > newest, table.c.id.in_(passed_over))
        query = select(table.c.id, table.c.run, table.c.body).where(is_new).order_by(table.c.id).limit(AT_ONCE)
        rows = list(self.reader.rows(query))
        if not rows:
            return []
        self._learn_runs({row.run for row in rows})
        found = [
            NewEntry(row.run, self._runs[row.run], self.reader.decoded(_KINDS[table], row.body))
            for row in rows
            if row.run in self._runs
        ]
        ids = {row.id for row in rows}
        self._newest[table] = highest = max(newest, *ids)
        oldest = highest - MAX_GAP
        skipped = (passed_over | set(range(max(newest, oldest) + 1, highest))) - ids
        self._passed_over[table] = {number for number in skipped if number > oldest}
        return found

    def _learn_runs(self, numbers: set[int]) -> None:
        unknown = numbers - self._runs.keys()
        if not unknown:
            return
        query = select(database.runs.c.number, database.runs.c.body).where(database.runs.c.number.in_(unknown))
        for row in self.reader.rows(query):
            self._runs[row.number] = self.reader.decoded(codec.run_from_dict, row.body)
