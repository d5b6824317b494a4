"""headgate assess: what a job would cost, from its logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.commands import headgate, refused
from tests.engines.spark.event_logs import LoggedRun, write_log

RUN = LoggedRun(seconds=400.0)
FEW = ("--draws", "1")


def test_one_application_is_a_recommendation_two_lines_of_code_tables_and_a_page(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    log, data, page = write_log(tmp_path / "app", RUN), tmp_path / "found.json", tmp_path / "found.html"
    result = headgate(
        "assess", str(log), "--objective", "latency p95 < 15s", "--price", "0.25", *FEW,
        "--json", str(data), "--report", str(page),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert text.startswith("shop / orders: application app-orders, query orders, Spark 4.3.0, 79 batches in 6m")
    for part in ('mode="recommend"', "Spark's own allocation", "What this does not know", "fixed at 2"):
        assert part in text
    found = json.loads(data.read_text())
    (application,) = found["applications"]
    assert (found["version"], application["version"], found["not_assessed"]) == (1, 1, {})
    assert application["objective"] == "latency p95 < 15s, price 0.25"
    assert set(application["simulated"]) == {"fixed at 2", "autopilot", "spark-dra"}
    hours = application["simulated"]["autopilot"]["instance_hours"]
    assert hours["low"] <= hours["value"] <= hours["high"]
    html = page.read_text()
    for part in ("What to do", "What the job can do", "What this does not know", "figure-2"):
        assert part in html


def test_a_folder_is_a_table_of_applications_and_of_what_cannot_be_assessed(tmp_path: Path) -> None:
    write_log(tmp_path / "app-1", RUN)
    write_log(tmp_path / "app-2", replace(RUN, query="small", rate_per_s=15.0))
    (tmp_path / "batch-job").write_text('{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n')
    result = headgate("assess", str(tmp_path), *FEW, "--objective", "latency p95 < 12s", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    # That which missed its objective is first.
    assert [item["name"] for item in found["applications"]] == ["shop / small", "shop / orders"]
    assert [item["measured"]["met"] for item in found["applications"]] == [False, True]
    assert list(found["not_assessed"]) == ["batch-job"]
    text = headgate("assess", str(tmp_path), *FEW).stdout
    assert "Not assessed" in text
    assert "batch-job: " in text


def test_counts_are_assessed_with_a_speed_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("timestamp,count\n" + "".join(f"{60 * minute},{600 + 60 * minute}\n" for minute in range(20)))
    alone = headgate("assess", str(path))
    assert alone.exit_code == 0, alone.output
    assert "say --service-rate" in alone.stdout
    found = headgate("assess", str(path), "--service-rate", "15", "--objective", "latency p95 < 30s", *FEW)
    assert found.exit_code == 0, found.output
    assert "What it would have been" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere does not exist; give an event log, a folder of them, progress lines or counts."),
        (("empty-folder",), "empty-folder has no event log in it."),
        (("batch-job",), "batch-job has no progress of a streaming query with a batch"),
        (("only-batch-jobs",), "none of the 2 logs in only-batch-jobs can be assessed; the first: "),
        (("app", "--query", "x"), "app has no query 'x'; it has orders."),
        (("app", "--service-rate", "5"), "--service-rate goes with counts of records"),
        (("app", "--min", "5", "--max", "2"), "min"),
        (("app", "--startup", "soon"), "--startup: duration 'soon' is not understood"),
        (("counts.csv", "--service-rate", "5"), "counts do not tell which objective the job met: say --objective."),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("app"), RUN)
    Path("empty-folder").mkdir()
    Path("only-batch-jobs").mkdir()
    for path in (Path("batch-job"), Path("only-batch-jobs/a"), Path("only-batch-jobs/b")):
        path.write_text('{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n')
    Path("counts.csv").write_text("timestamp,count\n0,5\n60,5\n")
    assert message in refused("assess", *arguments)
