"""The tables of journals in a database: runs, four kinds of entries, and learned state."""

from __future__ import annotations

from sqlalchemy import REAL, BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

FORMAT = 2
"""The version of the tables and of what is in them; to be raised when an older Headgate could not read them."""

# In SQLite these hold eight bytes by their short names, and only an INTEGER numbers its rows by itself.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_SECONDS: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("job", Text, nullable=False),
    Column("written_s", _SECONDS, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("runs_by_job", "job"),
    sqlite_autoincrement=True,  # The number of a run that is gone is not given again.
)


def _entries(name: str) -> Table:
    """A kind of entries. ``series`` and ``detail`` say which of them may be thinned together (``thinning.py``)."""
    return Table(
        name,
        metadata,
        Column("id", _NUMBER, primary_key=True),
        Column("run", _NUMBER, nullable=False),
        Column("at_s", _SECONDS, nullable=False),
        Column("written_s", _SECONDS, nullable=False),
        Column("series", Text, nullable=False),
        Column("detail", Integer, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Index(f"{name}_by_run", "run", "at_s"),
        # The oldest of a detail is looked for; SQLite has the number of a row in every index anyway.
        Index(f"{name}_by_detail", "detail").ddl_if(dialect="sqlite"),
        Index(f"{name}_by_detail_and_id", "detail", "id").ddl_if(dialect="postgresql"),
    )


observations = _entries("observations")
decisions = _entries("decisions")
receipts = _entries("receipts")
events = _entries("events")
ENTRIES = (observations, decisions, receipts, events)

states = Table(
    "states",
    metadata,
    Column("key", Text, primary_key=True),
    Column("written_s", _SECONDS, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
