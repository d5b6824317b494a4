"""headgate lab: experiments that anybody can run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import headgate, refused


def test_all_experiments_are_listed() -> None:
    printed = headgate("lab", "list").stdout
    assert all(f"azimi-{number}" in printed for number in range(1, 10))
    listed = json.loads(headgate("lab", "list", "--json").stdout)
    assert set(listed[0]) == {"name", "summary"}


def test_an_experiment_gives_a_table_json_and_a_report(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    data, report = tmp_path / "rows.json", tmp_path / "report.html"
    result = headgate("lab", "run", "azimi-9", "--json", str(data), "--report", str(report))
    assert result.exit_code == 0, result.output
    rows = json.loads(data.read_text())["rows"]
    assert len(rows) == 14
    assert {"workload", "configuration", "latency_p90_s", "executors_mean", "violations_pct"} <= set(rows[0])
    page = report.read_text()
    assert page.count('id="figure-') == 4
    assert '"upperfence"' in page


def test_a_misspelt_experiment_gets_a_suggestion() -> None:
    assert "did you mean 'azimi-1'" in refused("lab", "run", "azimi1")


def test_tuning_that_is_interrupted_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headgate.lab.tuning.on_spark.run_tuning", interrupted)
    options = ("--workload", "constant:20", "--service-rate", "10", "--seconds", "1h", "--out", str(tmp_path))
    result = headgate("lab", "tune", *options)
    assert (result.exit_code, result.stdout) == (130, "")
    message = f"finished runs are saved, and the same command with --out {tmp_path} continues."
    assert result.stderr == f"headgate: stopped; {message}\n"
