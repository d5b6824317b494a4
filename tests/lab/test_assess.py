"""Assessments of jobs from their logs, on jobs whose load and capacity are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.objective import Objective, parse_objective
from headgate.engines.spark.event_log import read_event_log
from headgate.engines.spark.event_log_files import find_event_logs
from headgate.lab.assess import Assessment, AssessmentTerms, _drawn, assess_counts, assess_logged_job, by_urgency
from headgate.lab.assess_report import prospect_rows
from headgate.lab.what_if import CandidatePolicy, RecordedJob
from headgate.workloads.steps import Steps
from tests.engines.spark.event_logs import LoggedRun, write_log

RUN = LoggedRun(seconds=900.0, load_at_s=40.0, executors=tuple((str(number), 0.0, 30.0, None) for number in range(4)))
FAST = 1


def assessed(path: Path, run: LoggedRun = RUN, objective: Objective | None = None, **terms: float) -> Assessment:
    (log,) = find_event_logs(write_log(path, run))
    chosen = AssessmentTerms(objective=objective, draws=FAST, **terms)  # type: ignore[arg-type]  # prices and counts
    return assess_logged_job(read_event_log(log, late_after_s=chosen.late_after_s), chosen)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Assessment:
    return assessed(tmp_path_factory.mktemp("assess") / "app", price=0.5)


def test_load_and_capacity_are_those_of_the_job(plain: Assessment) -> None:
    values = {estimate.name: estimate for estimate in plain.found}
    assert values["service rate of an instance"].value == pytest.approx(RUN.rate_per_s, rel=0.02)
    assert values["fixed time of a batch"].value == pytest.approx(RUN.fixed_s, abs=0.05)
    assert values["start-up"].value == pytest.approx(30.0)
    assert plain.load.peak_per_s == pytest.approx(60.0, rel=0.02)
    assert plain.load.mean_per_s == pytest.approx(34.0, rel=0.02)
    assert plain.seconds == pytest.approx(RUN.seconds, abs=10)


def test_without_an_objective_it_is_what_the_job_met_so_far(plain: Assessment) -> None:
    assert plain.is_derived
    # A batch of 5 s of the highest load takes 2.4 s, and its oldest record has waited for 5 s before that.
    assert str(plain.objective.slo) == "latency p95 < 10s"
    assert plain.is_met is True
    assert (plain.objective.min_instances, plain.objective.max_instances) == (1, 8)


def test_what_is_paid_is_less_at_the_size_that_is_recommended(plain: Assessment) -> None:
    assert plain.measured is not None
    assert plain.measured.instance_seconds == pytest.approx(4 * plain.seconds, rel=0.02)
    fixed = next(prospect for prospect in plain.prospects.values() if prospect.instances is not None)
    # Sixty a second at forty for each executor, in batches with a fixed part.
    assert fixed.instances == 2
    assert plain.saving is not None
    assert plain.saving >= 0.45
    assert "% less than the 1 that were paid" in plain.recommendation or "% less than the 0.99" in plain.recommendation
    assert plain.recommendation.count(". ") == 0
    row = prospect_rows(plain)[0]
    assert (row[""], row["objective"]) == ("measured", "met")


def test_recommend_mode_is_two_lines_of_code_with_the_objective_and_the_bounds(plain: Assessment) -> None:
    assert plain.code == [
        "import headgate",
        'headgate.autoscale(spark, "latency p95 < 10s", executors=(1, 8), mode="recommend", journal="headgate.db")',
    ]


def test_what_is_not_known_is_said(plain: Assessment) -> None:
    text = " ".join(plain.unknown)
    assert "Never more than 4 executors were seen at work. The capacity of 8 is extrapolated: between" in text
    assert "All batches ran on 4 executors." in text
    assert "No executor was started while the job ran" in text
    assert "5s is inferred" in text
    assert "what other hours, days and seasons bring is not known" in text


def test_a_job_that_is_too_small_gets_more_and_is_first_in_the_table(tmp_path: Path, plain: Assessment) -> None:
    small = replace(RUN, executors=RUN.executors[:1], rate_per_s=30.0)
    missed = assessed(tmp_path / "app", small, parse_objective("latency p95 < 20s"), most=8)
    assert missed.is_met is False
    assert missed.measured is not None
    assert (missed.measured.late_records_pct or 0.0) > 30
    assert missed.saving is not None
    assert missed.saving < 0
    assert "more than the" in missed.recommendation
    assert by_urgency([plain, missed]) == [missed, plain]


def test_where_nothing_meets_the_objective_that_is_the_answer(tmp_path: Path) -> None:
    run = replace(RUN, executors=RUN.executors[:1], rate_per_s=20.0)
    found = assessed(tmp_path / "app", run, parse_objective("latency p99 < 6s"), most=2)
    assert found.recommendation.startswith("Nothing up to 2 executors is sure to meet latency p99 < 6s")
    assert found.saving is None


def test_a_start_up_that_is_given_or_assumed_is_used_and_said(tmp_path: Path) -> None:
    found = assessed(tmp_path / "app", startup_s=120.0)
    assert "Start-up is taken as 2m, as given." in found.unknown
    assert found.job is not None
    jobs = [found.job, *_drawn(found.job, AssessmentTerms(startup_s=120.0))]
    assert {job.calibration.startup_s for job in jobs} == {120.0}


def test_a_log_that_does_not_tell_how_long_batches_take_has_a_load_and_figures_so_far(tmp_path: Path) -> None:
    short = replace(RUN, seconds=20.0)
    found = assessed(tmp_path / "app", short)
    assert found.recommendation.startswith("What other sizes would cost cannot be said: 3 batches do not tell")
    assert found.load.records == pytest.approx(short.load_until(15.0), rel=0.05)
    assert found.measured is not None
    assert found.measured.late_records_pct == 0
    assert not found.prospects
    assert [row[""] for row in prospect_rows(found)] == ["measured"]


@pytest.mark.parametrize("size", [1, 4])
def test_late_records_of_another_size_are_predicted(tmp_path: Path, size: int) -> None:
    goal = parse_objective("latency p95 < 7s").within(1, 8)

    def recorded(count: int) -> RecordedJob:
        run = LoggedRun(
            seconds=900.0, rate_per_s=25.0, executors=tuple((str(number), 0.0, 4.0, None) for number in range(count))
        )
        (log,) = find_event_logs(write_log(tmp_path / f"app-{count}", run))
        return RecordedJob.of(read_event_log(log, late_after_s=7.0).observations, [], goal)

    truth = recorded(size).measured(goal, goal)
    predicted, _ = recorded(2).under(CandidatePolicy("static", {"instances": size}), goal.within(size, size))
    assert truth.late_records_pct is not None
    assert truth.late_records_pct > 10
    assert predicted.late_records_pct == pytest.approx(truth.late_records_pct, rel=0.05)


def test_counts_tell_the_load_and_with_a_speed_what_it_needs() -> None:
    load = Steps([0.0, 600.0, 1200.0, 1800.0], [20.0, 70.0, 20.0])
    terms = AssessmentTerms(objective=parse_objective("latency p95 < 30s"), draws=FAST)
    alone = assess_counts("counts.csv", load, terms, None)
    assert "say --service-rate" in alone.recommendation
    assert alone.load.peak_per_s == pytest.approx(70.0)
    assert not alone.prospects
    assert not alone.code
    found = assess_counts("counts.csv", load, terms, 20.0)
    fixed = next(prospect for prospect in found.prospects.values() if prospect.instances is not None)
    assert fixed.instances == 4
    assert found.prospects["autopilot"].hours < fixed.hours
