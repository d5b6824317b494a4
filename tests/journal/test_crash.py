"""A process that is killed while it writes loses at most the sample it was writing."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headgate.journal.sqlite import SqliteJournal
from tests.journal.entries import RUN, observation

WRITER = """
import sys
from headgate.journal.sqlite import SqliteJournal
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


@pytest.mark.parametrize("acknowledged", [1, 777, 3000])
def test_a_killed_writer_leaves_everything_it_had_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "run.sqlite"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
    # A last line that was cut short is one whose sample had been written all the same.
    whole = acknowledged + len(rest)

    # Whoever wants to know what happened reads first, and finds the file as the crash left it.
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
