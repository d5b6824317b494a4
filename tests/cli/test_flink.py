"""headgate flink: what it refuses and what it prints; a cluster is started in tests/local/test_flink.py."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.cli.commands import headgate, refused

AWAY = ("--url", "http://127.0.0.1:9")


@pytest.fixture(autouse=True)
def _none_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--slots", "0"], "a TaskManager with 0 slots is not possible; at least 1 is needed."),
        (["up", "--taskmanagers", "-1"], "a cluster with -1 TaskManagers is not possible; 0 or more are."),
        (["run", "nexmark-7"], "unknown Flink application 'nexmark-7', did you mean 'nexmark-5'?"),
        (
            ["run", "nexmark-5", "--source", "built-in"],
            "no Flink cluster is up; start one with: headgate flink up, or name yours with --url.",
        ),
        (["run", "nexmark-5", "--source", "tape", *AWAY], "--source 'tape' is not known; kafka and built-in are."),
        (
            ["run", "nexmark-5", *AWAY],
            "which topic is to be read is not said; write --topic NAME, or take --source built-in.",
        ),
        (
            ["run", "nexmark-5", "--topic", "bids", "--seconds", "5s", *AWAY],
            "--seconds '5s' does not go with --source kafka; send records with headgate load, or take --source "
            "built-in.",
        ),
        (
            ["run", "nexmark-5", "--topic", "bids", *AWAY],
            "no broker is up; start one with: headgate kafka up, or name yours with --bootstrap.",
        ),
        (
            ["run", "nexmark-5", "--source", "built-in", *AWAY],
            "where records that are built in are to lie is not said; write --folder FOLDER.",
        ),
        (["run", "nexmark-5", "--check", *AWAY], "--check compares what was written; write --folder FOLDER."),
        (["run", "slow-middle", "--cost", "soon", *AWAY], "--cost: duration 'soon' is not understood"),
    ],
)
def test_a_wrong_use_is_reported_in_one_sentence(arguments: list[str], message: str) -> None:
    assert refused("flink", *arguments).startswith(message)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--parallelism", "0", "--parallelism 0 is not possible; 1 to 128 are."),
        ("--parallelism", "129", "--parallelism 129 is not possible; 1 to 128 are."),
        ("--cost", "11s", "--cost 11000 ms is not possible; 0 to 10000 are."),
        ("--workload", "flat:1", "unknown workload 'flat'"),
        ("--url", "localhost:8081", "the address 'localhost:8081' of a Flink cluster is not understood"),
    ],
)
def test_a_job_that_cannot_be_is_reported_in_one_sentence(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    common = ["flink", "run", "slow-middle", "--source", "built-in", "--seconds", "1s", "--folder", str(tmp_path / "x")]
    assert refused(*common, *AWAY, option, value).startswith(message)


def test_results_of_another_run_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "part-0").touch()
    message = refused("flink", "run", "nexmark-1", "--source", "built-in", "--folder", str(tmp_path), *AWAY)
    assert message == f"{tmp_path}/results holds results of another run; name another folder, or delete it."
    assert not (tmp_path / "records.json").exists()


def test_a_missing_cluster_is_reported_at_once(tmp_path: Path) -> None:
    common = ("flink", "run", "nexmark-1", "--source", "built-in", "--seconds", "1s", "--folder", str(tmp_path))
    result = headgate(*common, *AWAY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("headgate: no Flink cluster answers at http://127.0.0.1:9: ")


def test_status_says_how_to_start_one() -> None:
    result = headgate("flink", "status")
    assert (result.exit_code, result.stdout) == (0, "no Flink cluster is up; start one with: headgate flink up\n")
    assert headgate("flink", "down").stdout == "no Flink cluster was up\n"


@pytest.mark.parametrize("spec", [None, ModuleSpec("pyflink", None)], ids=["absent", "python-only"])
def test_missing_jars_are_reported_with_the_command(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr("headgate.local.machine.find_spec", lambda name: spec)
    assert refused("flink", "up") == (
        "Flink needs apache-flink-libraries, which is not installed: pip install 'headgate[flink]'."
    )
