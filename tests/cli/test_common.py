"""What all commands share: errors in one sentence, JSON to a file or to standard output, quick starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate import __version__
from headgate.cli.common import check_target, key_values, with_json_target
from headgate.core.errors import HeadgateError, InputError, JournalError, OutputError, UnwritableJournalError
from headgate.journal.writer import SqliteJournal
from headgate.render.page import write_file
from tests.cli.commands import SIMULATE, headgate, refused

HEADGATE = (sys.executable, "-c", "from headgate.cli import main; main()")


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verson"], "no such command 'verson'. Did you mean 'version'? See 'headgate --help'."),
        (["version", "--jsn"], "no such option: --jsn (Possible options: --json). See 'headgate version --help'."),
        (["explain"], "missing argument 'JOURNAL'. See 'headgate explain --help'."),
        (
            ["simulate", "--workload", "constant:1", "--service-rate", "1", "--seconds", "1", "--price", "much"],
            "invalid value 'much' for '--price': Input should be a valid number, "
            "unable to parse string as a number. See 'headgate simulate --help'.",
        ),
    ],
)
def test_a_wrong_use_is_reported_in_one_line_with_a_suggestion(arguments: list[str], message: str) -> None:
    assert refused(*arguments) == message


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise RuntimeError("a defect")

    monkeypatch.setattr("headgate.policies.policy_names", broken)
    assert isinstance(headgate("policies").exception, RuntimeError)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("so."), 2),
        (JournalError("so."), 1),
        (HeadgateError("so."), 1),
        (OutputError("so."), 3),
        (UnwritableJournalError("so."), 3),
    ],
)
def test_the_exit_code_tells_whose_fault_it_was(
    monkeypatch: pytest.MonkeyPatch, error: HeadgateError, code: int
) -> None:
    def failing() -> list[str]:
        raise error

    monkeypatch.setattr("headgate.policies.policy_names", failing)
    result = headgate("policies")
    assert (result.exit_code, result.stderr) == (code, "headgate: so.\n")


def test_no_command_shows_the_help() -> None:
    result = headgate()
    assert result.exit_code == 2
    assert "simulate" in result.output


# --------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["policies", "--json"], ["policies", "--json=-"]),
        (["policies", "--json", "-"], ["policies", "--json", "-"]),
        (["policies", "--json", "out.json"], ["policies", "--json", "out.json"]),
        (["policies", "--json=out.json"], ["policies", "--json=out.json"]),
        (["simulate", "--json", "--seed", "3"], ["simulate", "--json=-", "--seed", "3"]),
        (["explain", "--json", "--", "--json"], ["explain", "--json=-", "--", "--json"]),
        (["cluster", "status", "--json"], ["cluster", "status", "--json=-"]),
    ],
)
def test_json_without_a_file_means_standard_output(given: list[str], taken: list[str]) -> None:
    assert with_json_target(given) == taken


def test_json_to_a_file_prints_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    result = headgate("version", "--json", str(target))
    assert result.output == ""
    assert json.loads(target.read_text()) == {"version": __version__}


def test_a_file_is_replaced_as_a_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old" * 1000)
    headgate("version", "--json", str(target))
    assert json.loads(target.read_text()) == {"version": __version__}
    assert [found.name for found in tmp_path.iterdir()] == ["out.json"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "out.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_file(link, "{}")
    assert link.is_symlink()
    assert target.read_text() == "{}"


def test_a_device_can_be_written_to() -> None:
    assert headgate("version", "--json", os.devnull).exit_code == 0
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{folder}", "{folder} is a folder; a file is needed to write to."),
        ("{folder}/no/out.json", "{folder}/no/out.json cannot be written: there is no folder {folder}/no."),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, target: str, message: str) -> None:
    assert refused(*SIMULATE, "--json", target.format(folder=tmp_path)) == message.format(folder=tmp_path)


def test_the_journal_is_not_a_place_to_write_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is the journal"):
        check_target(f"{tmp_path}/../{tmp_path.name}/run.sqlite", journal=tmp_path / "run.sqlite")


def test_a_journal_of_another_run_is_not_written_over(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    SqliteJournal(other).close()
    message = f"{other} is a database, such as a journal; another file is needed to write to."
    assert refused(*SIMULATE, "--json", str(other)) == message
    SqliteJournal.read(other).close()


# -------------------------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["upper"], "--set 'upper' is not understood; write --set key=value."),
        (["=1"], "--set '=1' is not understood; write --set key=value."),
        (["a=1", "a=2"], "--set gives a twice, as '1' and '2'; once is allowed."),
    ],
)
def test_settings_are_key_and_value(items: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        key_values("--set", items)
    assert str(caught.value) == message


def test_a_value_may_contain_anything() -> None:
    assert key_values("--set", ["expression=a=b", " spaced = x "]) == {"expression": "a=b", "spaced": "x"}


# ------------------------------------------------------------------------------------------------------- as a process


def test_the_command_as_a_process_has_its_exit_codes_and_streams() -> None:
    good = subprocess.run([*HEADGATE, "policies", "--json"], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert {"name", "summary", "settings"} <= json.loads(good.stdout)[0].keys()
    bad = subprocess.run([*HEADGATE, *SIMULATE, "--policy", "reactiv"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("headgate: unknown policy 'reactiv', did you mean 'reactive'?")
    assert "Traceback" not in bad.stderr


def test_an_interrupted_command_exits_with_130(tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    endless = (*SIMULATE[:-1], "100000d", "--journal", str(journal))
    with subprocess.Popen([*HEADGATE, *endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            while not journal.exists():  # The journal is opened just before the run.
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(signal.SIGINT)
            printed, message = running.communicate(timeout=60)
        finally:
            running.kill()  # Leaving the block would wait for it.
    assert (running.returncode, printed) == (130, "")
    assert message == f"headgate: stopped; what was done is in {journal}.\n"


@pytest.mark.parametrize("heavy", ["pyspark", "plotly", "pandas", "numpy", "pydantic", "sqlalchemy", "rich"])
def test_the_command_line_starts_without(heavy: str) -> None:
    code = f"import sys, headgate.cli; print({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_help_shows_commands_in_groups_and_seldom_used_ones_on_request() -> None:
    printed = headgate("--help").stdout
    places = [printed.index(f"─ {group} ─") for group in ("Run", "Understand", "What if", "Service", "Try out")]
    assert places == sorted(places)
    assert "forecasters" not in printed
    everything = headgate("--all").stdout
    for name in ("forecasters", "engines", "token", "agent", "completion", "version", "simulate"):
        assert f"│ {name} " in everything
    assert headgate("version").exit_code == 0, "a command that is not shown still works"
