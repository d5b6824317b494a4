"""Every journal keeps the contract."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.journal.contract import Journal, ReadableJournal, Retention
from headgate.journal.memory import MemoryJournal
from headgate.journal.postgres import PostgresJournal
from headgate.journal.writer import SqliteJournal
from headgate.testing.journal_features import RETENTION_CHECKS, WRITER_CHECKS, OpenWriter, RetentionFactory
from headgate.testing.journals import JOURNAL_CHECKS, JournalFactory, OpenReader, check_journal, itself
from tests.postgres import PostgresServer


def second_reader(journal: Journal) -> ReadableJournal:
    assert isinstance(journal, SqliteJournal)
    return SqliteJournal.read(journal.path)


def second_writer(journal: Journal) -> Journal:
    assert isinstance(journal, SqliteJournal)
    return SqliteJournal(journal.path)


def in_files(folder: Path) -> JournalFactory:
    names = itertools.count()
    return lambda: SqliteJournal(folder / f"{next(names)}.sqlite")


class InDatabases:
    """Journals in PostgreSQL, each in a database of its own."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres
        self._urls: dict[int, str] = {}

    def make(self, retention: Retention | None = None, now: Callable[[], float] = time.time) -> Journal:
        url = self._postgres.new_database()
        journal = PostgresJournal(url, retention=retention, now=now)
        self._urls[id(journal)] = url
        return journal

    def second_reader(self, journal: Journal) -> ReadableJournal:
        return PostgresJournal.read(self._urls[id(journal)])

    def second_writer(self, journal: Journal) -> Journal:
        return PostgresJournal(self._urls[id(journal)])


def another(journal: Journal) -> Journal:
    assert isinstance(journal, PostgresJournal | SqliteJournal)
    return journal.another()


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


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
def test_journal_in_postgres(check: Callable[[JournalFactory, OpenReader], None], postgres: PostgresServer) -> None:
    databases = InDatabases(postgres)
    check(databases.make, databases.second_reader)


@pytest.mark.parametrize("check", WRITER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("way", ["anew", "another"])
def test_several_writers_in_postgres(
    check: Callable[[JournalFactory, OpenWriter], None], way: str, postgres: PostgresServer
) -> None:
    databases = InDatabases(postgres)
    check(databases.make, databases.second_writer if way == "anew" else another)


@pytest.mark.parametrize("check", RETENTION_CHECKS, ids=lambda check: check.__name__)
def test_retention_in_postgres(check: Callable[[RetentionFactory], None], postgres: PostgresServer) -> None:
    check(InDatabases(postgres).make)


def test_all_checks_can_be_run_at_once(tmp_path: Path) -> None:
    check_journal(MemoryJournal)
    check_journal(in_files(tmp_path), second_reader, open_writer=second_writer)
