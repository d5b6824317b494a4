"""Every journal keeps the contract."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.journal.contract import Journal
from headgate.journal.memory import MemoryJournal
from headgate.journal.sqlite import SqliteJournal
from headgate.testing.journals import JOURNAL_CHECKS, JournalFactory, OpenReader, Reader, check_journal, itself


def second_reader(journal: Journal) -> Reader:
    assert isinstance(journal, SqliteJournal)
    return SqliteJournal.read(journal.path)


def subject(kind: str, folder: Path) -> tuple[JournalFactory, OpenReader]:
    if kind == "memory":
        return MemoryJournal, itself
    names = itertools.count()
    return lambda: SqliteJournal(folder / f"{next(names)}.sqlite"), second_reader


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_journal(kind: str, check: Callable[[JournalFactory, OpenReader], None], tmp_path: Path) -> None:
    check(*subject(kind, tmp_path))


def test_all_checks_can_be_run_at_once() -> None:
    check_journal(MemoryJournal)
