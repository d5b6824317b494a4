"""Several processes write one journal, while others read it."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.types import Event
from headgate.journal.database import LOG_LIMIT_BYTES, log_bytes
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN

ROOT = Path(__file__).parents[2]
WRITERS = 4
TICKS = 150

WRITER = """
import sys
from dataclasses import replace
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, decision, observation

path, job, ticks = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
journal = SqliteJournal(path)
journal.begin(replace(RUN, job=job))
for tick in range(ticks):
    journal.observed(observation(float(tick), int(job)))
    journal.decided(decision(float(tick), int(job), int(job)))
journal.save_state(job, {"ticks": ticks})
journal.close()
"""


def test_processes_that_write_one_file_at_once_lose_nothing_and_mix_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    looks = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(start_writer(path, job)) for job in range(1, WRITERS + 1)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:  # All at once: none of them finds the file made.
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        while any(writer.poll() is None for writer in writers):
            looks += read_while_written(path)
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    assert looks > 0
    with closing(SqliteJournal.read(path)) as reader:
        assert sorted(reader.jobs()) == [str(job) for job in range(1, WRITERS + 1)]
        for job in reader.jobs():
            ((number, _),) = reader.runs(job=job)
            seen, decided = reader.observations(run=number), reader.decisions(run=number)
            times_s = [float(tick) for tick in range(TICKS)]
            assert [entry.at_s for entry in seen] == [entry.at_s for entry in decided] == times_s
            assert {entry.instances["job"].planned for entry in seen} == {int(job)}
            assert reader.last_sizes(job) == {"job": int(job)}
            assert reader.load_state(job) == {"ticks": TICKS}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def start_writer(path: Path, job: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(job), str(TICKS)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def read_while_written(path: Path) -> int:
    """A look at a file that others write: each run is whole up to where it has come. Gives how many entries it saw."""
    try:
        opened = SqliteJournal.read(path)
    except InputError:
        return 0  # It has not been made yet.
    count = 0
    with closing(opened) as reader:
        for number, _ in reader.runs():
            seen = [entry.at_s for entry in reader.observations(run=number)]
            assert seen == [float(tick) for tick in range(len(seen))]
            count += len(seen)
    return count


# ---------------------------------------------------------------------------------------------------------- the log


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "run.sqlite")
    journal.begin(RUN)
    yield journal
    journal.close()


def write_megabytes(journal: SqliteJournal, count: float) -> None:
    random_numbers = random.Random(1)
    for second in range(round(100 * count)):
        journal.noted(Event(second, "check", random_numbers.randbytes(10_000).hex()))


def test_the_log_is_written_back_and_does_not_grow(journal: SqliteJournal) -> None:
    write_megabytes(journal, 12)
    assert log_bytes(journal.path) < LOG_LIMIT_BYTES


def test_a_log_that_grew_while_somebody_read_for_long_is_cut_back(journal: SqliteJournal) -> None:
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        write_megabytes(journal, 10)
        assert log_bytes(journal.path) > LOG_LIMIT_BYTES
    write_megabytes(journal, 0.5)
    assert log_bytes(journal.path) < LOG_LIMIT_BYTES


def test_the_log_is_cut_back_although_somebody_is_always_reading(journal: SqliteJournal) -> None:
    stop = threading.Event()

    def read() -> None:
        """Begins to read anew before it has stopped reading."""
        two = [sqlite3.connect(journal.path, isolation_level=None) for _ in range(2)]
        for turn in iter(lambda: stop.wait(0.005), True):
            assert not turn
            for reader in two:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM runs").fetchone()
                other = two[1 - two.index(reader)]
                if other.in_transaction:
                    other.execute("COMMIT")
                stop.wait(0.005)
        for reader in two:
            reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        write_megabytes(journal, 25)
    finally:
        stop.set()
        thread.join()
    assert log_bytes(journal.path) < 1.5 * LOG_LIMIT_BYTES
