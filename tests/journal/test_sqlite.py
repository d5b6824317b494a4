"""The journal in a file: what it refuses to open, how it is bounded, and that it stays readable whatever happens."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headgate.core.errors import HeadgateError, InputError, JournalError
from headgate.journal import database
from headgate.journal.codec import packed
from headgate.journal.writer import FileWriter, SqliteJournal
from tests.journal.entries import RUN, decision, event, observation, receipt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(path)
    yield journal
    journal.close()


# ----------------------------------------------------------------------------------------------------------- opening


def make_text(path: Path) -> None:
    path.write_text("timestamp,count\n" * 100)


def make_other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cookies (name)")
    connection.close()


def make_journal_of_format(path: Path, number: int) -> None:
    SqliteJournal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    connection.close()


UNUSABLE = [
    (Path.mkdir, "is a folder; a file is needed"),
    (os.mkfifo, "is not a regular file"),
    (make_text, "it is not a SQLite database"),
    (make_other_database, "it is a SQLite database of something else"),
    (
        partial(make_journal_of_format, number=3),
        "has format 3, of a newer Headgate; this one reads and writes format 2 only: name another file",
    ),
    (
        partial(make_journal_of_format, number=1),
        "has format 1, of an older Headgate; this one reads and writes format 2 only: name another file",
    ),
]


@pytest.mark.parametrize("open_journal", [SqliteJournal, SqliteJournal.read])
@pytest.mark.parametrize(("make", "message"), UNUSABLE)
def test_a_path_that_holds_something_else_is_refused(
    path: Path, make: Callable[[Path], None], message: str, open_journal: Callable[[Path], object]
) -> None:
    make(path)
    with pytest.raises(InputError, match=message):
        open_journal(path)


@pytest.mark.parametrize("make", [make_text, make_other_database])
def test_a_file_of_something_else_is_left_as_it_was(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(InputError):
        SqliteJournal(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("open_journal", "message"),
    [(SqliteJournal, "there is no folder"), (SqliteJournal.read, "does not exist")],
)
def test_a_path_in_a_folder_that_is_not_there_is_refused(
    path: Path, open_journal: Callable[[Path], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        open_journal(path / "deeper.sqlite")


def test_a_path_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(HeadgateError, match="cannot be opened for writing"):
        SqliteJournal("/proc/headgate.sqlite")


def test_an_empty_file_can_become_a_journal_but_is_none_yet(path: Path) -> None:
    path.touch()
    with pytest.raises(InputError, match="it is empty"):
        SqliteJournal.read(path)
    SqliteJournal(path).close()
    with closing(SqliteJournal.read(path)) as reader:
        assert reader.runs() == []


def test_a_path_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "50% of #1? ü.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    journal.close()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    with closing(SqliteJournal.read(path)) as reader:
        assert reader.runs() == [(1, RUN)]


def test_a_journal_that_is_opened_again_still_has_everything_and_begins_another_run(path: Path) -> None:
    first = SqliteJournal(path)
    first.begin(RUN)
    first.observed(observation(1.0))
    first.save_state("policy", {"learned": 1})
    first.close()
    second = SqliteJournal(path)
    assert [seen.at_s for seen in second.observations()] == [1.0]
    assert second.load_state("policy") == {"learned": 1}
    with pytest.raises(JournalError, match="before a run has begun"):
        second.observed(observation(2.0))
    assert second.begin(RUN) == 2
    second.close()


def test_a_file_system_without_write_ahead_logging_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(path: Path, mode: str) -> sqlite3.Connection:
        # This way of locking has no shared memory, as file systems of a network may not have it either.
        uri = f"{path.as_uri()}?mode={mode}&vfs=unix-dotfile"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(database, "_connect", connect)
    with pytest.raises(
        InputError, match=r"without write-ahead logging, .* \(its mode stays 'delete'\); put it on a local"
    ):
        SqliteJournal(path)


# ------------------------------------------------------------------------------------------------ read while written


def test_a_reader_sees_each_entry_as_soon_as_it_is_written(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    reader = SqliteJournal.read(journal.path)
    for second in range(3):
        journal.decided(decision(float(second)))
        assert len(reader.decisions()) == second + 1
    reader.close()


def test_a_reader_is_not_held_up_by_an_unfinished_write(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    journal.noted(event(1.0))
    reader = SqliteJournal.read(journal.path)
    with journal._write():
        assert [noted.at_s for noted in reader.events()] == [1.0]
    reader.close()


def test_many_threads_can_write_and_read_at_once(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    failures: list[BaseException] = []

    def write(start: int) -> None:
        try:
            for second in range(start, start + 50):
                journal.observed(observation(float(second)))
                journal.decisions(last=1)
                journal.received(receipt(float(second)))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=write, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(journal.observations()) == len(journal.receipts()) == 200


# ------------------------------------------------------------------------------------------------------ when it fails


def limit_pages(journal: SqliteJournal, spare: int) -> None:
    """Leave room for only so many pages more, as on a disk that is nearly full."""
    writing = journal._writing
    assert isinstance(writing, FileWriter)
    pages = writing.connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    writing.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + spare}")
    writing.connection.rollback()


def write_until_it_fails(journal: SqliteJournal) -> tuple[int, str]:
    """How many observations could be written, and the error of the next one."""
    for count in range(1000):
        try:
            journal.observed(observation(float(count)))
        except JournalError as error:
            return count, str(error)
    raise AssertionError("the disk did not fill up")


def test_a_full_disk_is_a_journal_error_and_all_that_was_written_can_still_be_read(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    limit_pages(journal, 5)
    written, message = write_until_it_fails(journal)
    assert message == f"journal {journal.path} cannot be written: database or disk is full."
    assert written > 0
    assert len(journal.observations()) == written
    with closing(SqliteJournal.read(journal.path)) as reader:
        assert len(reader.observations()) == written


def test_writing_goes_on_when_the_disk_has_room_again(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    limit_pages(journal, 5)
    write_until_it_fails(journal)
    limit_pages(journal, 100)
    journal.observed(observation(1e6))
    assert journal.observations()[-1].at_s == 1e6


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (packed('{"kind": 1}'), "missing 2 required positional arguments"),
        (packed('{"kind"'), "is not JSON"),
        (packed('{"at_s": 1.0}')[:-3], "it ends after"),
        (packed('{"at_s": 1.0}')[:-1] + b"x", "incorrect data check"),
        (b"hello", "incorrect header check"),
    ],
)
def test_a_damaged_entry_is_reported(journal: SqliteJournal, body: bytes, message: str) -> None:
    journal.begin(RUN)
    journal.noted(event(1.0))
    with sqlite3.connect(journal.path) as connection:
        connection.execute("UPDATE events SET body = ?", (body,))
    connection.close()
    with pytest.raises(JournalError, match=f"damaged entry of {len(body)} bytes: .*{message}"):
        journal.events()


def test_a_closed_journal_says_so(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.noted(event(1.0))
    with pytest.raises(JournalError, match="is closed"):
        journal.events()


def test_nothing_is_written_before_a_run_has_begun(journal: SqliteJournal) -> None:
    with pytest.raises(JournalError, match="before a run has begun"):
        journal.noted(event(1.0))
    assert journal.events() == []


def test_closing_leaves_one_file(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    journal.close()
    assert [found.name for found in journal.path.parent.iterdir()] == [journal.path.name]


def test_a_journal_where_nothing_can_be_written_is_read_without_writing_into_its_folder(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.begin(RUN)
    journal.observed(observation(1.0))
    journal.close()
    monkeypatch.setattr("os.access", lambda *_: False)
    with closing(SqliteJournal.read(journal.path)) as reader:
        assert [seen.at_s for seen in reader.observations()] == [1.0]
        assert [found.name for found in journal.path.parent.iterdir()] == [journal.path.name]


@pytest.mark.parametrize("version", [0, -3])
def test_a_format_that_nobody_writes_is_refused(journal: SqliteJournal, version: int) -> None:
    journal.begin(RUN)
    journal.close()
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(InputError, match=f"has format {version}, which no Headgate writes"):
        SqliteJournal.read(journal.path)


def test_writers_that_share_a_connection_keep_to_their_own_runs_until_the_last_is_closed(path: Path) -> None:
    first = SqliteJournal(path)
    second = first.another()
    assert (first.begin(RUN), second.begin(replace(RUN, job="other"))) == (1, 2)
    first.noted(event(1.0))
    second.noted(replace(event(1.0), detail="of the second"))
    first.close()
    with pytest.raises(JournalError, match="closed"):
        first.noted(event(2.0))
    second.noted(replace(event(2.0), detail="after the first was closed"))
    assert second.events(run=1) == [event(1.0)]
    assert [event.detail for event in second.events(run=2)] == ["of the second", "after the first was closed"]
    second.close()
    assert [found.name for found in path.parent.iterdir()] == [path.name]
