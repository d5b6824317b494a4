"""The tables of a service, alike in SQLite and in PostgreSQL, with the version of their form."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, Table, Text

SCHEMA_VERSION = 2
"""Raised when an older Headgate cannot use the tables. Version 2 added the job and the operator of a token."""
VERSION_KEY = "schema"

metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

about = Table(
    "headgate_service",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

tokens = Table(
    "headgate_tokens",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("made_s", Double, nullable=False),
    Column("until_s", Double),
    Column("job", Text),
    Column("operator", Text),
)
"""Of a token only its digest is stored, so that reading the table gives no access."""

audit = Table(
    "headgate_audit",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("at_s", Double, nullable=False),
    Column("who", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Index("headgate_audit_by_job", "job", "number"),
    sqlite_autoincrement=True,
)
"""Only ever added to: triggers refuse anything else."""

changes = Table(
    "headgate_changes",
    metadata,
    Column("job", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("at_s", Double, nullable=False),
    Column("until_s", Double),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
)
"""Changes made while jobs run, in place of what the file says; one per job, kind and name."""
