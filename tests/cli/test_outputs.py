"""Results that cannot be written: the work is not lost, and the same fault has the same exit code everywhere."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.cli.common import Outputs, check_target, prepare_folder
from headgate.core.errors import InputError, OutputError
from headgate.journal.writer import SqliteJournal
from headgate.lab.scenario import Scenario, ScenarioOutcome
from tests.cli.commands import REACTIVE, SIMULATE, headgate

FULL = "/dev/full cannot be written: no space left on device."
HEADGATE = (sys.executable, "-m", "headgate")


@pytest.mark.parametrize("option", ["--json", "--report", "--save-state"])
def test_figures_are_printed_although_a_file_cannot_be_written(option: str) -> None:
    result = headgate(*SIMULATE, *REACTIVE, option, "/dev/full")
    assert (result.exit_code, result.stderr) == (3, f"headgate: {FULL}\n")
    assert "mean instances" in result.stdout
    assert "report:" not in result.stdout


def test_one_file_that_cannot_be_written_does_not_keep_others_from_being(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    result = headgate(*SIMULATE, *REACTIVE, "--report", "/dev/full", "--json", "/dev/full", "--save-state", str(state))
    assert (result.exit_code, result.stderr) == (3, f"headgate: {FULL}\n")
    assert state.exists()


def test_a_journal_that_cannot_be_written_on_the_way_costs_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OutputError("the journal cannot be written: it is full.")

    monkeypatch.setattr(SqliteJournal, "observed", full)
    result = headgate(*SIMULATE, *REACTIVE, "--journal", str(tmp_path / "run.sqlite"))
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "headgate: the journal cannot be written: it is full."
    assert "mean instances" in result.stdout


def test_a_scenario_is_shown_although_its_report_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = ScenarioOutcome([{"policy": "static", "mean instances": 3.0}])
    scenario = Scenario("a-scenario", "It counts.", lambda _: outcome)
    monkeypatch.setattr("headgate.lab.scenario.find_scenario", lambda _: scenario)
    result = headgate("lab", "run", "a-scenario", "--report", "/dev/full")
    assert (result.exit_code, result.stderr) == (3, f"headgate: {FULL}\n")
    assert "mean instances" in result.stdout


@pytest.mark.parametrize("command", [["policies"], ["version"]])  # One writes more than a buffer holds.
def test_standard_output_that_is_full_is_reported_in_one_sentence(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*HEADGATE, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    message = "headgate: standard output cannot be written: no space left on device.\n"
    assert (done.returncode, done.stderr) == (3, message)


def test_a_name_of_a_file_that_is_no_text_is_no_reason_to_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = os.fsdecode(b"na\xffme.csv")
    Path(named).write_text("timestamp,count\n0,5\n60,6\n")
    outputs = ("--report", "o.html", "--json", "o.json")
    result = headgate("simulate", "--workload", f"csv:{named}", "--service-rate", "10", *REACTIVE, *outputs)
    assert result.exit_code == 0, result.output
    assert "csv:na?me.csv" in Path("o.html").read_text(encoding="utf-8")


def test_what_the_encoding_of_a_terminal_does_not_have_costs_nothing_else() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    arguments = [*HEADGATE, *SIMULATE, *REACTIVE]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mean instances" in done.stdout


@pytest.mark.parametrize(("number", "message"), [(30, "read-only file system"), (13, "permission denied")])
def test_a_file_that_may_not_be_written_is_found_before_the_work(
    number: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.TemporaryFile", refusing)
    with pytest.raises(OutputError, match=rf"out\.json cannot be written: {message}\.$"):
        check_target(tmp_path / "out.json")


@pytest.mark.parametrize(("flag", "message"), [(os.ST_RDONLY, "read-only file system"), (0, "permission denied")])
def test_an_existing_file_that_cannot_be_written_is_refused_with_the_reason(
    flag: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "out.json"
    there.touch()
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_flag=flag))
    with pytest.raises(OutputError, match=rf"out\.json cannot be written: {message}\.$"):
        check_target(there)


def test_a_journal_on_a_read_only_disk_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself says that it is unable to open the file."""

    def refusing(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("sqlite3.connect", refusing)
    monkeypatch.setattr(
        "headgate.journal.database.problem_with_writing", lambda _: OSError(30, "Read-only file system")
    )
    journal = tmp_path / "run.sqlite"
    result = headgate(*SIMULATE, *REACTIVE, "--journal", str(journal))
    message = f"headgate: journal {journal} cannot be opened for writing: read-only file system.\n"
    assert (result.exit_code, result.stderr) == (3, message)


@pytest.mark.parametrize(
    ("number", "kind"), [(28, OutputError), (30, OutputError), (13, OutputError), (20, InputError)]
)
def test_a_folder_is_no_mistake_where_the_disk_is_at_fault(
    number: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> None:
        raise OSError(number, "So")

    monkeypatch.setattr(Path, "mkdir", refusing)
    with pytest.raises(kind, match=r"--out .* cannot be written to: so\.$"):
        prepare_folder("--out", tmp_path)


def test_what_else_goes_wrong_comes_before_what_could_not_be_written() -> None:
    def failing() -> None:
        with Outputs() as outputs:
            outputs.failed("so.")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
