"""What headgate app run says at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.comparison import ResultDifferences
from headgate.apps.registry import find_application
from headgate.apps.running.accounts import Totals
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.plan import ApplicationRunPlan
from headgate.apps.running.run import RunResult
from headgate.cli.application import problems, sentences
from headgate.core.objective import parse_objective
from headgate.runtime.summary import RunRecord
from headgate.workloads.load import Load
from headgate.workloads.replay import Answers, ReplayProgress

EXACT = ResultDifferences(missing=0, unexpected=0, doubled=0, wrong=0, expected=7)


@pytest.fixture
def result(tmp_path: Path) -> RunResult:
    objective = parse_objective("latency p95 < 10s").within(1, 2)
    load = Load("constant:10", "grep", seconds=10.0)
    plan = ApplicationRunPlan(
        find_application("grep"), "embedded", RunFolder.at(tmp_path), objective, "static", load=load
    )
    return RunResult(plan, RunRecord(objective), 100, Totals(read=100, batches=4), None, EXACT, None, None)


def test_every_record_is_accounted_for(result: RunResult) -> None:
    text = list(sentences(result))
    assert text[0] == "Records: 100 there, 100 read in 4 batches, 0 malformed, 0 late."
    assert text[1].startswith("The 7 results are those of the batch computation over the same records")
    assert problems(result) == []


def test_malformed_records_and_unknown_counts_are_reported(result: RunResult) -> None:
    text = " ".join(sentences(replace(result, available=None, totals=Totals(malformed=2, unknown_late=1))))
    assert "an unknown number there" in text
    assert f"stored unchanged in {result.plan.folder.malformed}" in text
    assert "Late records of 1 batches are unknown" in text


def test_results_that_differ_are_a_problem_and_late_records_may_be_why(result: RunResult) -> None:
    differ = ResultDifferences(missing=1, unexpected=2, doubled=3, wrong=4, expected=7)
    (text,) = problems(replace(result, differences=differ, totals=Totals(late=5)))
    assert "1 missing, 2 unexpected, 3 doubled, 4 wrong; 5 records were late" in text


def test_records_that_the_broker_did_not_take_are_a_problem(result: RunResult) -> None:
    standing = ReplayProgress(1.0, due=100, sent=100, answers=Answers(acknowledged=90, failed=8), lateness=None)
    (text,) = problems(replace(result, load=standing))
    assert text.startswith("8 records were not accepted by the broker, and of 2 it is not known")


def test_all_of_it_is_there_for_programs(result: RunResult) -> None:
    text = result.to_json()
    assert text["run"]["application"] == "grep"
    assert text["records"]["read"] == 100
    assert text["check"] == {"is_exact": True, "missing": 0, "unexpected": 0, "doubled": 0, "wrong": 0, "expected": 7}
