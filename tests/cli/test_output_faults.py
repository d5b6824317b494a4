"""The same fault of an output has the same exit code and one sentence, whichever option of whichever command it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import HeadgateError
from headgate.service.store.store import open_store
from tests.cli.commands import REACTIVE, SIMULATE, headgate

REPOSITORY = Path(__file__).parents[2]
FLINK = ("autoscale-flink", "--url", "http://127.0.0.1:1", "--job", "clicks", "--objective", "latency p95 < 10s")
TUNE = ("lab", "tune", "--workload", "constant:5", "--service-rate", "10", "--seconds", "2h")
APP = ("app", "run", "page-view", "--workload", "constant:5", "--seconds", "10s")
FILES: tuple[tuple[str, ...], ...] = (
    (*SIMULATE, *REACTIVE, "--json"),
    (*SIMULATE, *REACTIVE, "--report"),
    (*SIMULATE, *REACTIVE, "--save-state"),
    (*SIMULATE, *REACTIVE, "--journal"),
    (*FLINK, "--json"),
    (*APP, "--json"),
    (*TUNE, "--json"),
    (*TUNE, "--report"),
    ("policies", "--json"),
    ("explain", "none.db", "--json"),
    ("report", "none.db", "--html"),
    ("replay", "none.db", "--report"),
    ("assess", "none", "--json"),
    ("assess", "none", "--report"),
    ("lab", "new"),
    ("lab", "run", "fleet-small", "--json"),
    ("lab", "run", "fleet-small", "--report"),
    ("lab", "results", "none", "--csv"),
    ("lab", "results", "none", "--report"),
    ("mst", "steady-job", "--save"),
    ("mst", "steady-job", "--plot"),
)
FOLDERS: tuple[tuple[str, ...], ...] = (
    (*APP, "--folder"),
    (*APP, "--checkpoint"),
    (*TUNE, "--out"),
    ("demo", "--output"),
    ("mst", "--all", "--save"),
    ("lab", "run", "experiment.yaml", "--out"),
    ("pipeline", "run", str(REPOSITORY / "examples" / "pipeline-chain.yaml"), "--output"),
)
LONG = "a" * 300


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").touch()
    Path("a-folder").mkdir()
    assert headgate("lab", "new").exit_code == 0


def code_of(command: tuple[str, ...], target: str) -> int:
    """The exit code of a command that says in one sentence why it cannot write there, before it does any work."""
    result = headgate(*command, target)
    assert result.stdout == "", command
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("headgate: ")
    assert target in result.stderr
    return result.exit_code


@pytest.mark.parametrize("target", ["no/such/file", "a-file/file", "a-folder", LONG])
@pytest.mark.parametrize("command", FILES, ids=" ".join)
def test_a_file_that_can_never_be_is_wrong_input(command: tuple[str, ...], target: str) -> None:
    assert code_of(command, target) == 2


@pytest.mark.parametrize("target", ["a-file", "a-file/folder", LONG])
@pytest.mark.parametrize("command", FOLDERS, ids=" ".join)
def test_a_folder_that_can_never_be_is_wrong_input(command: tuple[str, ...], target: str) -> None:
    assert code_of(command, target) == 2


# The system decides whether the place or the user is at fault; root gets other answers than other users.
@pytest.mark.parametrize("target", ["/proc/headgate-output", "/sys/headgate-output"])
def test_a_place_that_is_not_for_files_has_one_code_for_all_outputs(target: str) -> None:
    codes = {" ".join(command): code_of(command, target) for command in (*FILES, *FOLDERS)}
    assert set(codes.values()) <= {2, 3}
    assert len(set(codes.values())) == 1, codes
    with pytest.raises(HeadgateError) as error:
        open_store(f"sqlite:///{target}")
    from headgate.cli.app import code_of as code_of_error

    assert {code_of_error(error.value)} == set(codes.values())


def test_a_journal_is_no_device() -> None:
    """What takes any text, such as a pipe or /dev/full, takes no database: that is no fault of the disk."""
    assert code_of((*SIMULATE, *REACTIVE, "--journal"), "/dev/full") == 2
