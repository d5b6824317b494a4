"""The reading half of the SQLite journal; it never changes the file and never waits for whoever writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine, Table, func, select

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
from headgate.journal import codec, database

T = TypeVar("T")


class JournalReader:
    """A journal's file, to be read only, also while another process writes it; safe to use from any thread."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._reading = database.open_reader(self.path)
        self._closed = False

    def runs(self) -> list[tuple[int, Run]]:
        """The runs that are kept, by number."""
        query = select(database.runs.c.number, database.runs.c.body).order_by(database.runs.c.number)
        with database.translated(self.path, "read"), self._open().connect() as connection:
            rows = connection.execute(query).all()
        return [(number, self._decoded(codec.run_from_dict, body)) for number, body in rows]

    def observations(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Observation]:
        return self._entries(database.observations, codec.observation_from_dict, run, since_s)

    def decisions(
        self, *, run: int | None = None, since_s: Instant | None = None, last: int | None = None
    ) -> list[Decision]:
        return self._entries(database.decisions, codec.decision_from_dict, run, since_s, last)

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]:
        return self._entries(database.receipts, codec.receipt_from_dict, run, since_s)

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]:
        return self._entries(database.events, codec.event_from_dict, run, since_s)

    def load_state(self, key: str) -> Mapping[str, JSON] | None:
        query = select(database.states.c.body).where(database.states.c.key == key)
        with database.translated(self.path, "read"), self._open().connect() as connection:
            body = connection.execute(query).scalar_one_or_none()
        return None if body is None else self._decoded(dict, body)

    def state_keys(self) -> list[str]:
        query = select(database.states.c.key).order_by(database.states.c.written_s, database.states.c.key)
        with database.translated(self.path, "read"), self._open().connect() as connection:
            return list(connection.execute(query).scalars())

    def close(self) -> None:
        """Let go of the file; calling it twice is fine."""
        self._closed = True
        self._reading.dispose()

    def _open(self) -> Engine:
        if self._closed:
            raise JournalError(f"journal {self.path} is closed.")
        return self._reading

    def _entries(
        self,
        table: Table,
        decode: Callable[[Mapping[str, JSON]], T],
        run: int | None,
        since_s: Instant | None,
        last: int | None = None,
    ) -> list[T]:
        newest = select(func.max(database.runs.c.number)).scalar_subquery()
        query = select(table.c.body).where(table.c.run == (newest if run is None else run))
        if since_s is not None:
            query = query.where(table.c.at_s >= since_s)
        # Backwards, so that the last few of a long run are found without reading all of it.
        query = query.order_by(table.c.id.desc()).limit(last)
        with database.translated(self.path, "read"), self._open().connect() as connection:
            bodies = connection.execute(query).scalars().all()
        return [self._decoded(decode, body) for body in reversed(bodies)]

    def _decoded(self, decode: Callable[[Mapping[str, JSON]], T], body: str) -> T:
        try:
            return decode(codec.from_json(body))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(f"journal {self.path} has a damaged entry: {body[:80]!r}.") from error
