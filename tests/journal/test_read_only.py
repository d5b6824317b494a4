"""Journals that lie where nothing can be written: on read-only media, or in a folder of somebody else."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.core.errors import HeadgateError
from headgate.journal.writer import SqliteJournal

NOBODY = 65534
SEEN = shlex.split("simulate --policy reactive --workload constant:25 --service-rate 10 --seconds 2m --journal")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody may read; that of pytest is its owner's only."""
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        path.chmod(0o755)
        shutil.rmtree(path)


def read_without_permission(path: Path) -> str:
    """What a process reads that may not write into the folder of the journal; root may, so it becomes somebody else."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)
    process = forking.Process(target=_tell, args=(path, there))
    process.start()
    there.close()
    text = str(here.recv())
    process.join()
    return text


def _tell(path: Path, answer: Connection) -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    try:
        with closing(SqliteJournal.read(path)) as journal:
            answer.send(f"{len(journal.runs())} run, {len(journal.observations())} observations")
    except HeadgateError as error:
        answer.send(str(error))


def test_a_journal_in_a_folder_that_may_only_be_read_is_read_as_ever(folder: Path) -> None:
    journal = folder / "run.db"
    assert CliRunner().invoke(app, [*SEEN, str(journal)]).exit_code == 0
    before = sorted(folder.iterdir())
    assert read_without_permission(journal) == "1 run, 25 observations"
    assert sorted(folder.iterdir()) == before == [journal]


def test_one_whose_writer_was_killed_is_not_read_without_its_log(folder: Path, tmp_path: Path) -> None:
    written, copied = tmp_path / "run.db", folder / "run.db"
    assert CliRunner().invoke(app, [*SEEN, str(written)]).exit_code == 0
    with closing(sqlite3.connect(written)) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
        # While it is open, the change is in the log, as after a kill.
        for name in ("run.db", "run.db-wal"):
            shutil.copy(tmp_path / name, folder / name)
    assert read_without_permission(copied) == (
        f"journal {copied} has a log, run.db-wal, whose writer was killed, and it is read only where files "
        "can be written: copy both to such a folder."
    )
