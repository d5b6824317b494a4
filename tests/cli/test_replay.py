"""headgate replay: what another policy would have done with the job of a journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.journal.writer import SqliteJournal
from tests.cli.commands import headgate, refused
from tests.journal.entries import RUN, observation


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "run.sqlite"
    options = "--workload sine:mean=30,amplitude=25,period=5m --service-rate 12 --model micro-batch --seconds 10m"
    result = headgate("simulate", *options.split(), "--policy", "reactive", "--startup", "10s", "--journal", str(path))
    assert result.exit_code == 0, result.output
    return path


def test_measured_and_simulated_results_are_separate(journal: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    data, page = tmp_path / "found.json", tmp_path / "found.html"
    result = headgate(
        "replay", str(journal), "--policy", "reactive", "--policy", "hpa", "--set", "hpa.target=0.5",
        "--price", "2", "--json", str(data), "--report", str(page),
        width=80,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(data.read_text())
    assert found["version"] == 1
    assert list(found["simulated"]) == ["reactive", "hpa"]
    measured, again = found["measured"], found["replayed"]
    assert again["instance_seconds"] == pytest.approx(measured["instance_seconds"], rel=0.02)
    assert found["simulated"]["hpa"]["cost"] == pytest.approx(
        2 * found["simulated"]["hpa"]["instance_seconds"] / 3600, rel=1e-4
    )
    text = result.stdout
    assert "measured" in text
    assert "hpa, simulated" in text
    assert max(map(len, text.splitlines()[2:-2])) <= 80
    assert "Measured: what happened" in page.read_text()
    assert "Simulated: hpa" in page.read_text()


def test_a_part_of_a_run_can_be_replayed(journal: Path) -> None:
    found = json.loads(
        headgate("replay", str(journal), "--policy", "static", "--from", "2m", "--to", "7m", "--json").stdout
    )
    assert found["run"]["seconds"] == pytest.approx(300, abs=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "hap"], "unknown policy 'hap', did you mean 'hpa'?"),
        (["--set", "upper=0.9"], "--set 'upper=0.9' is not understood; write --set POLICY.KEY=VALUE."),
        (["--set", "mdp.upper=0.9"], "unknown policy of --set 'mdp'"),
        (["--from", "20m"], "run 1 has 0 observations in the requested part; at least 2 are needed"),
        (["--from", "noon"], "--from: duration 'noon' is not understood"),
        (["--operator", "parse"], "unknown operator 'parse'"),
        (["--run", "7"], "has no run 7; it has 1."),
    ],
)
def test_what_is_wrong_is_one_sentence(journal: Path, options: list[str], message: str) -> None:
    assert message in refused("replay", str(journal), *options)


def test_a_run_that_tells_too_little_says_so(tmp_path: Path) -> None:
    path = tmp_path / "short.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    for second in range(0, 50, 10):
        journal.observed(observation(second, 1))
    journal.close()
    assert "do not tell" in refused("replay", str(path))


def test_of_several_operators_one_must_be_named(tmp_path: Path) -> None:
    from dataclasses import replace

    path = tmp_path / "chain.sqlite"
    journal = SqliteJournal(path)
    journal.begin(replace(RUN, operators=("parse", "enrich")))
    journal.close()
    assert "the run has 2 operators; one at a time can be replayed" in refused("replay", str(path))


def test_an_interrupt_says_that_nothing_is_saved(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headgate.lab.journal_replay.replay_journal", interrupted)
    result = headgate("replay", str(journal))
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "headgate: stopped; nothing is saved.\n"
