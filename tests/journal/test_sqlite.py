"""The journal in a file: what it refuses to open, how it is bounded, and that it stays readable whatever happens."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core.errors import HeadgateError, InputError, JournalError
from headgate.journal import database, sqlite
from headgate.journal.sqlite import SqliteJournal
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


def make_newer_journal(path: Path) -> None:
    SqliteJournal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {database.FORMAT + 1}")
    connection.close()


UNUSABLE = [
    (Path.mkdir, "is a folder; a file is needed"),
    (os.mkfifo, "is not a regular file"),
    (make_text, "it is not a SQLite database"),
    (make_other_database, "it is a SQLite database of something else"),
    (make_newer_journal, "has format 2, of a newer Headgate; this one knows formats up to 1"),
]


@pytest.mark.parametrize("open_journal", [SqliteJournal, SqliteJournal.read])
@pytest.mark.parametrize(("make", "said"), UNUSABLE)
def test_a_path_that_holds_something_else_is_refused(
    path: Path, make: Callable[[Path], None], said: str, open_journal: Callable[[Path], object]
) -> None:
    make(path)
    with pytest.raises(InputError, match=said):
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
    ("open_journal", "said"),
    [(SqliteJournal, "there is no folder"), (SqliteJournal.read, "does not exist")],
)
def test_a_path_in_a_folder_that_is_not_there_is_refused(
    path: Path, open_journal: Callable[[Path], object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
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


def test_a_journal_that_is_opened_again_goes_on_with_its_newest_run(path: Path) -> None:
    first = SqliteJournal(path)
    first.begin(RUN)
    first.observed(observation(1.0))
    first.save_state("policy", {"learned": 1})
    first.close()
    second = SqliteJournal(path)
    second.observed(observation(2.0))
    assert [seen.at_s for seen in second.observations()] == [1.0, 2.0]
    assert second.load_state("policy") == {"learned": 1}
    assert second.begin(RUN) == 2
    second.close()


# ----------------------------------------------------------------------------------------------------------- bounded


class Wall:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for old entries at every tenth append instead of every few hundred."""
    monkeypatch.setattr(sqlite, "PRUNE_EVERY", 10)
    monkeypatch.setattr(sqlite, "PRUNE_AT_MOST", 40)


@pytest.mark.usefixtures("often")
def test_entries_older_than_the_retention_go_and_younger_ones_stay(path: Path) -> None:
    wall = Wall()
    journal = SqliteJournal(path, retention_s=3600, now=wall)
    journal.begin(RUN)
    for minute in range(180):
        wall.now_s += 60
        journal.observed(observation(60.0 * minute))
        journal.decided(decision(60.0 * minute))
    for kept in (journal.observations(), journal.decisions()):
        assert [entry.at_s for entry in kept[-60:]] == [60.0 * minute for minute in range(120, 180)]
        assert len(kept) <= 60 + sqlite.PRUNE_EVERY
    journal.close()


@pytest.mark.usefixtures("often")
def test_the_times_of_a_simulation_do_not_make_its_entries_old(path: Path) -> None:
    journal = SqliteJournal(path, retention_s=3600, now=Wall())
    journal.begin(RUN)
    for day in range(100):
        journal.observed(observation(86400.0 * day))
    assert len(journal.observations()) == 100
    journal.close()


@pytest.mark.usefixtures("often")
def test_no_more_than_the_largest_number_of_entries_is_kept(path: Path) -> None:
    journal = SqliteJournal(path, max_entries=50, now=Wall())
    journal.begin(RUN)
    for second in range(200):
        journal.noted(event(float(second)))
    kept = [noted.at_s for noted in journal.events()]
    assert 50 <= len(kept) <= 50 + sqlite.PRUNE_EVERY
    assert kept[-1] == 199.0
    journal.close()


@pytest.mark.usefixtures("often")
def test_a_run_goes_with_its_last_entry_and_its_number_is_not_given_again(path: Path) -> None:
    wall = Wall()
    journal = SqliteJournal(path, retention_s=3600, now=wall)
    journal.begin(RUN)
    journal.observed(observation(1.0))
    wall.now_s += 7200
    assert journal.begin(RUN) == 2
    assert [number for number, _ in journal.runs()] == [2]
    wall.now_s += 7200
    assert journal.begin(RUN) == 3
    assert [number for number, _ in journal.runs()] == [3]
    journal.close()


def test_learned_state_outlives_the_retention(path: Path) -> None:
    wall = Wall()
    journal = SqliteJournal(path, retention_s=60, now=wall)
    journal.begin(RUN)
    journal.save_state("policy", {"learned": 1})
    wall.now_s += 1e6
    journal.begin(RUN)
    assert journal.load_state("policy") == {"learned": 1}
    journal.close()


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


def test_two_writers_of_one_file_each_keep_to_their_run(path: Path) -> None:
    one, other = SqliteJournal(path), SqliteJournal(path)
    assert (one.begin(RUN), other.begin(RUN)) == (1, 2)
    one.noted(event(1.0))
    other.noted(event(2.0))
    assert [noted.at_s for noted in other.events(run=1)] == [1.0]
    assert [noted.at_s for noted in one.events()] == [2.0]
    one.close()
    other.close()


# ------------------------------------------------------------------------------------------------------ when it fails


def limit_pages(journal: SqliteJournal, spare: int) -> None:
    """Leave room for only so many pages more, as on a disk that is nearly full."""
    pages = journal._writer.exec_driver_sql("PRAGMA page_count").scalar_one()
    journal._writer.exec_driver_sql(f"PRAGMA max_page_count = {pages + spare}")
    journal._writer.rollback()


def write_until_it_fails(journal: SqliteJournal) -> tuple[int, str]:
    """How many observations could be written, and what was said about the next one."""
    for count in range(1000):
        try:
            journal.observed(observation(float(count)))
        except JournalError as error:
            return count, str(error)
    raise AssertionError("the disk did not fill up")


def test_a_full_disk_is_a_journal_error_and_all_that_was_written_can_still_be_read(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    limit_pages(journal, 5)
    written, said = write_until_it_fails(journal)
    assert said == f"journal {journal.path} cannot be written: database or disk is full."
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


def test_a_damaged_entry_is_named(journal: SqliteJournal) -> None:
    journal.begin(RUN)
    journal.noted(event(1.0))
    with sqlite3.connect(journal.path) as connection:
        connection.execute("""UPDATE events SET body = '{"kind": 1}'""")
    connection.close()
    with pytest.raises(JournalError, match=r"damaged entry: .*kind"):
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
