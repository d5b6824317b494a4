"""headgate explain: what was decided, when and why, from a journal."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import explain
from headgate.core.types import Answer, Outcome, Receipt, Run
from headgate.journal.sqlite import SqliteJournal
from tests.cli.commands import SIMULATE, headgate, refused
from tests.journal.entries import RUN, decision, event, observation, receipt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of a run that holds, grows, is stopped by a guard, fails to observe and shrinks."""
    path = tmp_path / "run.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    journal.noted(event(0, "started"))
    for second in range(0, 50, 10):
        journal.observed(observation(second, 1))
        journal.decided(decision(second))
    journal.decided(decision(50, 1, 3, code="slo-violated", proposed=9))
    journal.received(receipt(50.2, requested=3))
    journal.observed(observation(60, 3, 1))
    journal.decided(decision(60, 3, 3, code="slo-violated", proposed=9))
    journal.noted(event(65, "observe-failed"))
    journal.observed(observation(70, 3, 3))
    journal.decided(decision(70, 3, 3))
    journal.decided(decision(80, 3, 2, code="idle"))
    journal.received(Receipt(80.1, {"job": Answer(Outcome.REFUSED, 3, "the cluster is going away")}))
    journal.close()
    return path


def story(*arguments: str) -> Any:
    return json.loads(headgate("explain", *arguments, "--json").stdout)["story"]


def test_each_change_is_told_with_reason_numbers_guards_and_effect(path: Path) -> None:
    printed = headgate("explain", str(path)).stdout
    told = printed[printed.index("1 → 3") : printed.index("observe-failed")]
    assert "slo-violated at 50 s" in told
    assert "latency_s 1.5" in told
    assert "step-limit made it 3 instead of 9: the test said so" in told
    assert "accepted after 200ms; 3 ready after 20s" in told
    assert "bounds" not in told


def test_a_refusal_a_failure_and_a_stop_are_told(path: Path) -> None:
    printed = headgate("explain", str(path)).stdout
    assert "refused after 100ms (the cluster is going away)" in printed
    assert "observe-failed  observe-failed in a test" in printed
    assert "3, not 9" in printed


def test_holds_are_told_as_one(path: Path) -> None:
    assert "steady at 40 s (5 times in 40s)" in headgate("explain", str(path)).stdout


def test_the_json_tells_the_same(path: Path) -> None:
    data = json.loads(headgate("explain", str(path), "--json").stdout)
    assert data["run"]["number"] == 1
    assert [(item["t"], item["kind"]) for item in data["story"]] == [
        (0, "event"),
        (0, "hold"),
        (50, "resize"),
        (60, "stopped"),
        (65, "event"),
        (70, "hold"),
        (80, "resize"),
    ]
    grown = data["story"][2]
    assert (grown["current"], grown["proposed"], grown["target"], grown["reached_s"]) == (1, 9, 3, 70)
    assert grown["receipt"]["answers"]["job"]["outcome"] == "accepted"


@pytest.mark.parametrize(
    ("arguments", "first_s"),
    [(["--last", "1"], 80), (["--last", "2"], 60), (["--last", "3"], 0), (["--all"], 0), (["--last", "1", "--all"], 0)],
)
def test_the_last_few_changes_or_all_of_them(path: Path, arguments: list[str], first_s: float) -> None:
    assert story(str(path), *arguments)[0]["t"] == first_s


def test_of_a_long_run_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "FIRST_LOOK", 10)
    path = tmp_path / "long.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    for second in range(300):
        size = 1 + second // 30
        journal.decided(decision(second, size, size + (second % 30 == 29)))
    journal.close()
    assert [item["t"] for item in story(str(path), "--last", "2") if item["kind"] == "resize"] == [269, 299]
    assert len([item for item in story(str(path), "--last", "99") if item["kind"] == "resize"]) == 10


def test_a_run_is_picked_by_number_and_is_the_newest_otherwise(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.begin(Run(5.0, "static", {}, "latency p95 < 10s", "simulated", ("job",)))
    journal.close()
    newest = headgate("explain", str(path)).stdout
    assert "Run 2 of 2 in this journal" in newest
    assert "Nothing has been decided yet." in newest
    assert "1 → 3" in headgate("explain", str(path), "--run", "1").stdout
    assert refused("explain", str(path), "--run", "7") == f"journal {path} has no run 7; it has 1, 2."


def test_live_times_are_told_by_the_local_clock_too(tmp_path: Path) -> None:
    path = tmp_path / "live.sqlite"
    journal = SqliteJournal(path)
    start_s = 1_800_000_000.0
    journal.begin(Run(start_s, "static", {}, "latency p95 < 10s", "spark", ("job",)))
    journal.decided(decision(start_s + 90, 1, 2))
    journal.close()
    printed = headgate("explain", str(path)).stdout
    started, decided = (datetime.fromtimestamp(start_s + after_s).astimezone() for after_s in (0, 90))
    assert f"started {started:%Y-%m-%d %H:%M:%S}" in printed
    assert f"{decided:%H:%M:%S}  +90s  1 → 2" in printed


def test_operators_are_named_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "two.sqlite"
    journal = SqliteJournal(path)
    journal.begin(Run(0.0, "static", {}, "latency p95 < 10s", "simulated", ("job", "other")))
    journal.decided(decision(1, 1, 2))
    journal.close()
    assert "operators job, other" in headgate("explain", str(path)).stdout


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (Path.mkdir, "is a folder"),
        (lambda path: path.write_text("hello" * 300), "is not a journal of Headgate"),
        (lambda path: SqliteJournal(path).close(), "has no run yet"),
    ],
)
def test_what_is_not_a_journal_is_refused(tmp_path: Path, make: Any, said: str) -> None:
    path = tmp_path / "thing"
    make(path)
    assert said in refused("explain", str(path))


def test_the_journal_is_never_overwritten(path: Path) -> None:
    assert "is the journal" in refused("explain", str(path), "--json", str(path))
    assert "is the journal" in refused("report", str(path), "--html", str(path))
    assert headgate("explain", str(path)).exit_code == 0


def test_a_simulated_run_can_be_explained(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    headgate(*SIMULATE, "--startup", "20s", "--journal", str(path))
    printed = headgate("explain", str(path)).stdout
    assert "policy reactive · objective latency p95 < 10s · engine simulated" in printed
    assert "ready after 20s" in printed


def test_a_report_is_made_from_a_journal(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    assert headgate("report", str(path), "--html", str(target)).stdout == f"report: {target}\n"
    page = target.read_text()
    for told in ("reactive on job", "Run 1 of journal run.sqlite, engine simulated", "observe-failed", "1 → 3"):
        assert told in page
