"""The memory of control loops: what was observed, decided, done and learned.

A journal implements :class:`Journal`; ``headgate.testing`` ships the checks. :class:`SqliteJournal` stores it in a
file, :class:`PostgresJournal` in a shared database, :class:`MemoryJournal` in the process. Names are resolved on first
use, so that importing this package loads no database library.
"""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from headgate.core.errors import JournalError, UnwritableJournalError
    from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt, Run
    from headgate.journal.contract import Journal, ReadableJournal, Retention, Runs, Thinned, last_sizes
    from headgate.journal.memory import MemoryJournal
    from headgate.journal.postgres import PostgresJournal
    from headgate.journal.writer import SqliteJournal

__all__ = [
    "JSON",
    "Decision",
    "Event",
    "Instant",
    "Journal",
    "JournalError",
    "MemoryJournal",
    "Observation",
    "PostgresJournal",
    "ReadableJournal",
    "Receipt",
    "Retention",
    "Run",
    "Runs",
    "SqliteJournal",
    "Thinned",
    "UnwritableJournalError",
    "last_sizes",
]

_MODULES = {
    "JSON": "headgate.core.types",
    "Decision": "headgate.core.types",
    "Event": "headgate.core.types",
    "Instant": "headgate.core.types",
    "Journal": "headgate.journal.contract",
    "JournalError": "headgate.core.errors",
    "MemoryJournal": "headgate.journal.memory",
    "Observation": "headgate.core.types",
    "PostgresJournal": "headgate.journal.postgres",
    "ReadableJournal": "headgate.journal.contract",
    "Receipt": "headgate.core.types",
    "Retention": "headgate.journal.contract",
    "Run": "headgate.core.types",
    "Runs": "headgate.journal.contract",
    "SqliteJournal": "headgate.journal.writer",
    "Thinned": "headgate.journal.contract",
    "UnwritableJournalError": "headgate.core.errors",
    "last_sizes": "headgate.journal.contract",
}

__getattr__ = lazy_attributes(__name__, _MODULES)
