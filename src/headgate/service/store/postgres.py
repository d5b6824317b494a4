"""The store of services that share a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, func, insert, inspect, select

from headgate.core.errors import InputError, UnwritableJournalError
from headgate.journal.postgres import SCHEMA, PostgresDatabase, PostgresJournal, first_line
from headgate.service.lease import make_lease_table
from headgate.service.store.store import Store
from headgate.service.store.tables import SCHEMA_VERSION, VERSION_KEY, about, metadata

_SETS_UP = int.from_bytes(b"hgstor")
_ONLY_ADDED_TO = (
    f"CREATE OR REPLACE FUNCTION {SCHEMA}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$",
    f"CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON {SCHEMA}.headgate_audit "
    f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.refuse_change()",
)


def open_in_postgres(url: str, retention: Mapping[str, object] | None, now: Callable[[], float]) -> Store:
    """Tokens, audit log and changes beside the journal, and the lease, all in one schema of a database."""
    database = PostgresDatabase(url)
    try:
        journal = PostgresJournal(database, retention=retention, now=now)
    except UnwritableJournalError as error:
        # Nothing was to be written yet: it is the address that is wrong, or who asks, or the server is not there.
        why = first_line(error.__cause__ or error)
        raise InputError(f"store {database.place} cannot be opened: {why}.") from error
    try:
        with database.translated("opened for writing"):
            with database.engine.begin() as connection:
                _prepare(connection, database.place)
            make_lease_table(database.engine)
    except BaseException:
        journal.close()
        raise
    return Store(
        database.engine,
        lambda job, fence: journal.another(fence),
        journal.close,
        now,
        # A lease must not have to wait until somebody has read a long history.
        lease_engine=database.another_engine(1),
        place=database.place,
    )


def _prepare(connection: Connection, place: str) -> None:
    connection.execute(select(func.pg_advisory_xact_lock(_SETS_UP)))
    if not inspect(connection).has_table(about.name, schema=SCHEMA):
        metadata.create_all(connection)
        for statement in _ONLY_ADDED_TO:
            connection.exec_driver_sql(statement)
        connection.execute(insert(about).values(key=VERSION_KEY, value=str(SCHEMA_VERSION)))
        return
    found = connection.execute(select(about.c.value).where(about.c.key == VERSION_KEY)).scalar_one_or_none()
    if found != str(SCHEMA_VERSION):
        raise InputError(f"store {place} has schema {found}; this Headgate uses schema {SCHEMA_VERSION} only.")
