"""What a policy has learned, on the command line: saved, shown by region, and begun with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import headgate, refused

LEARN = (
    "simulate", "--policy", "q-learning", "--model", "micro-batch",
    "--workload", "sine:mean=50,amplitude=40,period=20m", "--service-rate", "10",
    "--seconds", "30m", "--set", "decision_interval_s=30s",
)  # fmt: skip


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    result = headgate(*LEARN, "--save-state", str(folder / "state.json"), "--journal", str(folder / "run.journal"))
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize("file", ["state.json", "run.journal"])
def test_the_table_is_drawn_by_region(learned: Path, file: str) -> None:
    printed = headgate("policies", "show", "q-learning", "--state", str(learned / file)).stdout
    for region in range(1, 5):
        assert f"job, region {region}: latency " in printed
    assert "scale out  no action  scale in      takes  learned" in printed
    rows = [line.split() for line in printed.splitlines() if line.lstrip().startswith("3.33 to 6.67 s")]
    assert len(rows) == 2
    assert any(row[-1].isdigit() for row in rows), "some of it was learned"


def test_state_as_json(learned: Path) -> None:
    shown = json.loads(
        headgate("policies", "show", "q-learning", "--state", str(learned / "state.json"), "--json").stdout
    )
    assert shown["name"] == "q-learning"
    assert shown["state"] == json.loads((learned / "state.json").read_text())


def test_a_run_begins_with_a_state(learned: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.json"
    result = headgate(*LEARN, "--seconds", "20s", "--state", str(learned / "run.journal"), "--save-state", str(after))
    assert result.exit_code == 0, result.output
    tables = [json.loads(path.read_text())["agents"]["job"]["table"] for path in (learned / "state.json", after)]
    assert tables[0] == tables[1]


def test_a_policy_without_tables_shows_its_state_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    headgate(*LEARN[:1], "--policy", "reactive", *LEARN[3:-2], "--save-state", str(path))
    assert '"learned"' in headgate("policies", "show", "reactive", "--state", str(path)).stdout


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"policy": "hpa", "version": 1}')
    message = refused("policies", "show", "q-learning", "--state", str(tmp_path / "state.json"))
    assert message.endswith("holds the state of policy 'hpa'; that of 'q-learning' is needed.")
    assert "no such file" in refused("policies", "show", "q-learning", "--state", str(tmp_path / "none.json"))
    assert "no such file" in refused(*LEARN, "--state", str(tmp_path / "none.json"))


def test_show_is_understood_without_being_said() -> None:
    assert headgate("policies", "show", "hpa").stdout == headgate("policies", "hpa").stdout
