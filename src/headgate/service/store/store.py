"""What a service keeps, whatever keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from sqlalchemy import Connection, Engine, exc

from headgate.core.errors import UnwritableJournalError
from headgate.journal.contract import Journal
from headgate.journal.postgres import first_line
from headgate.journal.reader import JournalFollower, JournalReader
from headgate.journal.writer import Fence
from headgate.service.lease import Lease, database_now
from headgate.service.store.changes import AuditLog, Changes
from headgate.service.store.tokens import Tokens

JournalOf: TypeAlias = Callable[[str, Fence | None], Journal]


class Store:
    """Tokens, audit log and changes of one service, and a journal for each of its jobs; safe to use from any thread.

    Where other services may use it as well, ``lease_engine`` connects to the lease by which one of them leads.
    """

    def __init__(
        self,
        engine: Engine,
        journal: JournalOf,
        close: Callable[[], None],
        now: Callable[[], float],
        *,
        lease_engine: Engine | None = None,
        place: str = "",
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._close = close
        self._place = place
        self.now = now
        self._lease_engine = lease_engine
        self.fence: Fence | None = None
        """Asked in every transaction of a service that leads whether it still does."""
        self.tokens = Tokens(self.transaction, now)
        self.audit = AuditLog(self.transaction, now)
        # Who stands by reads them, too, though it may not write.
        self.changes = Changes(lambda: self._on(self._engine), now)

    def journal_of(self, job: str) -> Journal:
        """A new writer of a job's journal, to be closed by whoever asked."""
        return self._journal(job, self.fence)

    def following(self) -> JournalFollower:
        """What others write from now on to the journals of all jobs."""
        reader = self._journal("", None)
        assert isinstance(reader, JournalReader), "it is asked for only where the store is a database"
        return JournalFollower(reader)

    @property
    def is_shared(self) -> bool:
        """Whether other services may use it as well, of which one leads."""
        return self._lease_engine is not None

    def lease(self, holder: str, url: str, lasts_s: float) -> Lease:
        """The lease by which one of several services leads that share this store."""
        engine = self._lease_engine
        assert engine is not None, "it is asked for only where the store is shared"
        return Lease(lambda: self._on(engine), holder, url, database_now=database_now(engine), lasts_s=lasts_s)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at its end."""
        fence = self.fence
        with self._on(self._engine) as connection:
            if fence is not None:
                fence(connection)
            yield connection

    @contextmanager
    def _on(self, engine: Engine) -> Iterator[Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except (exc.DBAPIError, exc.TimeoutError) as error:
            named = f"the store {self._place}".rstrip()
            raise UnwritableJournalError(f"{named} cannot be used: {first_line(error)}.") from error

    def close(self) -> None:
        self._close()
        self._engine.dispose()
        if self._lease_engine is not None:
            self._lease_engine.dispose()
