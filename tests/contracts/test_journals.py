"""Every journal keeps the contract."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.journal.contract import Journal, ReadableJournal
from headgate.journal.memory import MemoryJournal
from headgate.journal.retention import Retention
from headgate.journal.sqlite import SqliteJournal
from headgate.testing.journal_retention import RETENTION_CHECKS, RetentionFactory
from headgate.testing.journal_writers import WRITER_CHECKS, OpenWriter
from headgate.testing.journals import JOURNAL_CHECKS, JournalFactory, OpenReader, check_journal, itself


def second_reader(journal: Journal) -> ReadableJournal:
    assert isinstance(journal, SqliteJournal)
    return SqliteJournal.read(journal.path)


def second_writer(journal: Journal) -> Journal:
    assert isinstance(journal, SqliteJournal)
    return SqliteJournal(journal.path)


def in_files(folder: Path) -> JournalFactory:
    names = itertools.count()
    return lambda: SqliteJournal(folder / f"{next(names)}.sqlite")


def subject(kind: str, folder: Path) -> tuple[JournalFactory, OpenReader]:
    return (MemoryJournal, itself) if kind == "memory" else (in_files(folder), second_reader)


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_journal(kind: str, check: Callable[[JournalFactory, OpenReader], None], tmp_path: Path) -> None:
    check(*subject(kind, tmp_path))


@pytest.mark.parametrize("check", WRITER_CHECKS, ids=lambda check: check.__name__)
def test_several_writers(check: Callable[[JournalFactory, OpenWriter], None], tmp_path: Path) -> None:
    check(in_files(tmp_path), second_writer)


@pytest.mark.parametrize("check", RETENTION_CHECKS, ids=lambda check: check.__name__)
def test_retention(check: Callable[[RetentionFactory], None], tmp_path: Path) -> None:
    names = itertools.count()

    def factory(retention: Retention, now: Callable[[], float]) -> Journal:
        return SqliteJournal(tmp_path / f"{next(names)}.sqlite", retention=retention, now=now)

    check(factory)


def test_all_checks_can_be_run_at_once(tmp_path: Path) -> None:
    check_journal(MemoryJournal)
    check_journal(in_files(tmp_path), second_reader, open_writer=second_writer)
