"""A process that is killed while it writes loses at most the sample it was writing."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, observation

WRITER = """
import sys
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, decision, observation

journal = SqliteJournal(sys.argv[1])
journal.begin(RUN)
count = 0
while True:
    journal.observed(observation(float(count)))
    journal.decided(decision(float(count)))
    print(count, flush=True)
    count += 1
"""


THINNING_WRITER = """
import sys
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, observation

count = 0
journal = SqliteJournal(sys.argv[1], retention={"full_detail_s": 60}, now=lambda: 1e9 + 5 * count)
journal.begin(RUN)
while True:
    journal.observed(observation(5.0 * count))
    print(count, flush=True)
    count += 1
"""


def run_until_killed(program: str, path: Path, acknowledged: int) -> int:
    """Kill a writer after it has reported so many entries; returns how many it had reported by then."""
    command = [sys.executable, "-c", program, str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
    # A last line that was cut short is one whose sample had been written all the same.
    return acknowledged + len(rest)


@pytest.mark.parametrize("acknowledged", [1, 777, 3000])
def test_a_killed_writer_leaves_everything_it_had_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "run.sqlite"
    whole = run_until_killed(WRITER, path, acknowledged)

    # A reader comes first, and finds the file as the crash left it.
    with closing(SqliteJournal.read(path)) as reader:
        assert len(reader.observations()) >= whole
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with closing(SqliteJournal(path)) as journal:
        seen = [entry.at_s for entry in journal.observations()]
        decided = [entry.at_s for entry in journal.decisions()]
        assert seen == [float(second) for second in range(len(seen))]
        assert whole <= len(decided) <= len(seen) <= whole + 1
        assert journal.begin(RUN) == 2
        journal.observed(observation(1e6))


@pytest.mark.parametrize("acknowledged", [500, 1003])
def test_a_writer_killed_while_it_thins_leaves_the_newest_of_each_minute(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "run.sqlite"
    end_s = 5 * run_until_killed(THINNING_WRITER, path, acknowledged)
    with closing(SqliteJournal.read(path)) as reader:
        seen = [entry.at_s for entry in reader.observations()]
    young_s = end_s - 60
    assert [at_s for at_s in seen if young_s <= at_s < end_s] == list(range(young_s, end_s, 5))
    assert set(range(55, young_s, 60)) <= set(seen)
    assert len(seen) < end_s / 60 + 40
