"""headgate explain: what was decided, when and why, from a journal."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.core.types import Answer, Decision, Instances, Observation, Outcome, Receipt, Run, Sample, Startup
from headgate.core.window import StartupTimes
from headgate.journal.contract import budget_key, startup_key
from headgate.journal.writer import SqliteJournal
from headgate.render import explanation
from tests.cli.commands import REACTIVE, SIMULATE, headgate, refused
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


def test_each_change_is_reported_with_reason_numbers_guards_and_effect(path: Path) -> None:
    printed = headgate("explain", str(path)).stdout
    text = printed[printed.index("1 → 3") : printed.index("observe-failed")]
    assert "slo-violated at 50 s" in text
    assert "latency_s 1.5" in text
    assert "step-limit made it 3 instead of 9: the test said so" in text
    assert "accepted after 200ms; 3 ready after 20s" in text
    assert "bounds" not in text


def test_a_refusal_a_failure_and_a_stop_are_reported(path: Path) -> None:
    printed = headgate("explain", str(path)).stdout
    assert "refused after 100ms (the cluster is going away)" in printed
    assert "observe-failed  observe-failed in a test" in printed
    assert "3, not 9" in printed


def test_nothing_of_a_crafted_journal_steers_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "crafted.sqlite"
    journal = SqliteJournal(path)
    steering = "a\x1b]0;owned\x07\x1b[2J\x9b31mb\r"
    journal.begin(replace(RUN, policy=steering, engine=steering, job=steering))
    for second in range(0, 120, 10):
        journal.observed(observation(second, 1))
    changed = decision(50, 1, 3, code=steering, proposed=9)
    verdicts = {name: replace(verdict, reason=steering) for name, verdict in changed.verdicts.items()}
    journal.decided(replace(changed, policy=steering, verdicts=verdicts))
    journal.close()
    result = headgate("explain", str(path))
    for text in (result.stdout, result.stderr):
        assert not {character for character in text if unicodedata.category(character) == "Cc"} - {"\n"}
    assert "owned" in result.stdout


def test_repeated_failures_are_grouped(tmp_path: Path) -> None:
    path = tmp_path / "failing.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    for second in range(0, 185, 5):
        journal.noted(event(second, "observe-failed"))
    journal.close()
    printed = headgate("explain", str(path)).stdout
    assert printed.count("observe-failed  observe-failed in a test") == 1
    assert "observe-failed  observe-failed in a test (37 times in 3m)" in printed
    (text,) = story(str(path))
    assert text == {
        "t": 0,
        "kind": "event",
        "event": "observe-failed",
        "at_s": 0,
        "last_s": 180,
        "count": 37,
        "detail": "observe-failed in a test",
        "numbers": {},
        "severity": "info",
    }


def test_holds_are_grouped(path: Path) -> None:
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
    monkeypatch.setattr(explanation, "FIRST_PAGE", 10)
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


def test_live_times_are_shown_in_local_time_too(tmp_path: Path) -> None:
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


# ------------------------------------------------------------------------------------------------------- several jobs


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A journal of two jobs, the first of which ran twice."""
    path = tmp_path / "shared.sqlite"
    for number, job in enumerate(("orders", "clicks", "orders"), start=1):
        journal = SqliteJournal(path)
        journal.begin(replace(RUN, job=job))
        journal.decided(decision(10, 1, 1 + number))
        journal.close()
    return path


@pytest.mark.parametrize(
    ("arguments", "text", "change"),
    [
        ([], "Run 3 of job orders, which has 2 runs in this journal; others, by --job: clicks", "1 → 4"),
        (["--job", "orders"], "Run 3 of job orders", "1 → 4"),
        (
            ["--job", "clicks"],
            "Run 2 of job clicks, which has 1 run in this journal; others, by --job: orders",
            "1 → 3",
        ),
        (["--run", "1"], "Run 1 of job orders", "1 → 2"),
        (["--run", "1", "--job", "orders"], "Run 1 of job orders", "1 → 2"),
    ],
)
def test_a_job_is_picked_by_name_and_is_the_newest_otherwise(
    shared: Path, arguments: list[str], text: str, change: str
) -> None:
    printed = headgate("explain", str(shared), *arguments).stdout
    assert printed.startswith(text)
    assert change in printed
    data = json.loads(headgate("explain", str(shared), *arguments, "--json").stdout)
    assert data["run"]["job"] in text
    assert data["other_jobs"] == [job for job in ("clicks", "orders") if job != data["run"]["job"]]


def test_a_job_that_is_not_there_is_refused(shared: Path) -> None:
    message = refused("explain", str(shared), "--job", "click")
    assert message == "unknown job 'click', did you mean 'clicks'? Known: clicks, orders."
    message = refused("report", str(shared), "--job", "click", "--html", str(shared.with_suffix(".html")))
    assert message.startswith("unknown job 'click'")


def test_a_run_of_another_job_is_refused(shared: Path) -> None:
    message = refused("explain", str(shared), "--job", "orders", "--run", "2")
    assert message == f"journal {shared} has no run 2 of job 'orders'; it has 1, 3."


def test_the_only_job_is_named_if_it_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "named.sqlite"
    journal = SqliteJournal(path)
    journal.begin(replace(RUN, job="orders"))
    journal.close()
    assert "job orders · policy reactive" in headgate("explain", str(path)).stdout


# ---------------------------------------------------------------------------------------------- what is known of a run


def test_start_up_times_are_those_that_the_job_has_learned(path: Path) -> None:
    times = StartupTimes()
    for seconds in range(1, 11):
        times.add(Startup(str(seconds), 0.0, seconds, seconds + 2.0, seconds + 10.0))
    journal = SqliteJournal(path)
    journal.save_state(startup_key("job"), {"job": times.to_json()})
    journal.close()
    assert (
        "Start-up, measured on 10 instances: registered 5s after the request (90 % within 9s), "
        "first task done after 7s (11s), warm after 15s (19s)." in headgate("explain", str(path)).stdout
    )
    startups = json.loads(headgate("explain", str(path), "--json").stdout)["startups"]
    assert startups["job"]["warm_s"] == {"median_s": 15.0, "p90_s": 19.0}


def test_start_up_times_that_nobody_learned_are_those_that_were_seen(tmp_path: Path) -> None:
    path = tmp_path / "seen.sqlite"
    journal = SqliteJournal(path)
    journal.begin(RUN)
    journal.observed(replace(observation(10), startups={"job": (Startup("1", 0.0, 4.0, 6.0),)}))
    journal.close()
    assert "Start-up, measured on 1 instance: registered 4s" in headgate("explain", str(path)).stdout


def test_damaged_start_up_times_are_reported_in_one_sentence(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save_state(startup_key("job"), {"job": {"registered_s": 5}})
    journal.close()
    result = headgate("explain", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("headgate: start-up times in the journal are damaged")


def test_the_queries_of_a_job_are_listed_separately(path: Path, tmp_path: Path) -> None:
    parts = {
        "orders": Sample("job", 90.0, input_rate_per_s=120.0, backlog=300.0, latency_s=2.125),
        "clicks": Sample("job", 90.0),
    }
    seen = observation(90)
    journal = SqliteJournal(path)
    journal.begin(RUN)
    journal.observed(replace(seen, samples={"job": replace(seen.samples["job"], parts=parts)}))
    journal.observed(observation(95))
    journal.close()
    text = "Queries, as of +90s: orders 120 records/s, backlog 300, latency 2.12 s; clicks not known."
    assert text in headgate("explain", str(path)).stdout
    data = json.loads(headgate("explain", str(path), "--json").stdout)
    assert data["parts"]["job"]["orders"]["backlog"] == 300
    target = tmp_path / "run.html"
    headgate("report", str(path), "--html", str(target))
    assert "orders 120 records/s" in target.read_text()


def test_a_silent_operator_and_a_delivered_size_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "agents.sqlite"
    journal = SqliteJournal(path)
    journal.begin(replace(RUN, operators=("enrich", "join")))
    verdict = decision(10, 2, 4).verdicts["job"]
    verdicts = {"enrich": replace(verdict, operator="enrich"), "join": replace(verdict, operator="join")}
    journal.observed(Observation(10, {}, {"enrich": Instances(2, 2, 2), "join": Instances(2, 2, 2)}))
    journal.decided(Decision(10, "reactive", verdicts))
    answers = {"enrich": Answer(Outcome.DELIVERED, 4), "join": Answer(Outcome.ACCEPTED, 4)}
    journal.received(Receipt(10.5, answers))
    journal.observed(Observation(20, {}, {"enrich": Instances(2, 2, 2, stale=True), "join": Instances(4, 4, 4)}))
    journal.close()
    printed = headgate("explain", str(path)).stdout
    assert "delivered after 500ms; not confirmed yet" in printed
    assert "accepted after 500ms; 4 ready after 10s" in printed
    assert "enrich  silent  no readings since then; its last known size, 2 of 2 ready, is assumed" in printed
    kinds = [(item["kind"], item.get("operator")) for item in story(str(path))]
    assert kinds == [("resize", "enrich"), ("resize", "join"), ("silence", "enrich")]


@pytest.fixture
def thinned(tmp_path: Path) -> Path:
    """A journal of a day that was thinned to minutes and hours, with one change in it."""
    path = tmp_path / "thinned.sqlite"
    now_s = 0.0
    journal = SqliteJournal(path, retention={"full_detail_s": "1h", "minutes_s": "3h"}, now=lambda: 1e9 + now_s)
    journal.begin(RUN)
    for tick in range(8 * 120):
        now_s = 30.0 * tick
        size = 1 if tick < 240 else 3
        journal.observed(observation(now_s, size))
        journal.decided(decision(now_s, size, 1 if tick < 239 else 3))
        if tick == 239:
            journal.received(receipt(now_s + 0.2, requested=3))
    journal.close()
    return path


def test_a_thinned_run_is_marked_and_its_changes_are_complete(thinned: Path) -> None:
    printed = headgate("explain", str(thinned)).stdout
    assert "Thinned: of entries that only repeated each other there is one an hour until +" in printed
    assert "one a minute until +" in printed
    assert "+1h 59m  1 → 3" in printed
    assert "accepted after 200ms; 3 ready after 30s" in printed
    assert "steady at 7140 s (for 1h 59m)" in printed
    data = json.loads(headgate("explain", str(thinned), "--json").stdout)
    assert 0 < data["thinned"]["hours_until_s"] < data["thinned"]["minutes_until_s"] < 8 * 3600


def test_a_report_of_a_thinned_run_says_so(thinned: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    headgate("report", str(thinned), "--html", str(target))
    assert "Thinned: of entries that only repeated each other there is one an hour until" in target.read_text()


def test_a_run_that_is_all_there_is_not_called_thinned(path: Path) -> None:
    assert "Thinned" not in headgate("explain", str(path)).stdout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (Path.mkdir, "is a folder"),
        (lambda path: path.write_text("hello" * 300), "is not a journal of Headgate"),
        (lambda path: SqliteJournal(path).close(), "has no run yet"),
    ],
)
def test_what_is_not_a_journal_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "thing"
    make(path)
    assert message in refused("explain", str(path))


def test_the_journal_is_never_overwritten(path: Path) -> None:
    assert "is the journal" in refused("explain", str(path), "--json", str(path))
    assert "is the journal" in refused("report", str(path), "--html", str(path))
    assert headgate("explain", str(path)).exit_code == 0


def test_a_simulated_run_can_be_explained(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    headgate(*SIMULATE, *REACTIVE, "--startup", "20s", "--journal", str(path))
    printed = headgate("explain", str(path)).stdout
    assert "policy reactive · objective latency p95 < 10s · engine simulated" in printed
    assert "ready after 20s" in printed


def test_a_report_is_made_from_a_journal(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    assert headgate("report", str(path), "--html", str(target)).stdout == f"report: {target}\n"
    page = target.read_text()
    for text in (
        "<h1>job</h1>",
        "policy reactive",
        "Run 1 of journal run.sqlite, engine simulated",
        "observe-failed",
        "1 → 3",
    ):
        assert text in page


PRICED = (
    "--objective",
    "latency p95 < 10s per 1h, cost < 12 per day",
    "--price",
    "0.25",
    "--startup",
    "30s",
    *REACTIVE,
)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that grew too late, and one under a lighter load; to be read only."""
    path = tmp_path_factory.mktemp("two") / "run.sqlite"
    for workload in ("spike:base=10,peak=70,at=300s,width=300s", "constant:5"):
        arguments = ("--workload", workload, "--service-rate", "10", "--seconds", "1h", *PRICED)
        headgate("simulate", "--policy", "reactive", *arguments, "--journal", str(path))
    return path


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--run", "1"), "at most 5 % of the records of 1h later than 10s; in 1h 13.4 % of 54,000 records."),
        (("--run", "1"), "Error budget: 268 % of the last 1h spent, 4,533 records too many; burning at 0 ×"),
        (("--run", "1"), "Cost: 0.93 in 1h; 22.32 per day at this pace, the limit is 12."),
        ((), "in 1h 0 % of 18,000 records."),
        ((), "Error budget: 0 % of the last 1h spent, 900 records left"),
        ((), "Cost: 0.25 in 1h; 6 per day at this pace"),
    ],
)
def test_objective_delivery_budget_and_cost_are_reported(two_runs: Path, arguments: tuple[str, ...], text: str) -> None:
    assert text in " ".join(headgate("explain", str(two_runs), *arguments).stdout.split())


def test_a_conflict_of_objective_and_cost_is_reported_first(tmp_path: Path) -> None:
    path = str(tmp_path / "run.sqlite")
    arguments = ("--workload", "constant:70", "--service-rate", "10", "--seconds", "8h", "--interval", "30s", *PRICED)
    headgate("simulate", *arguments, "--journal", path)
    printed = " ".join(headgate("explain", path, "--last", "1").stdout.split())
    text = printed[: printed.index("affordable made it")]
    assert "Now objective and 'cost < 12 per day' cannot both be had: 10 instances cost 60 per day" in text
    assert "pays for 1 (6 per day), with at least 86 % of the records late at this load." in text


def test_the_json_has_the_budget_and_the_money(two_runs: Path) -> None:
    data = json.loads(headgate("explain", str(two_runs), "--json").stdout)
    assert data["version"] == 2
    assert data["budgets"]["job"]["asked"] == "latency p95 < 10s per 1h"
    assert data["budgets"]["job"]["left"] == pytest.approx(900)
    assert data["spending"]["left"] == pytest.approx(11.75)


def test_a_budget_that_was_saved_and_one_that_is_counted_again_are_the_same(two_runs: Path, tmp_path: Path) -> None:
    path = str(shutil.copy(two_runs, tmp_path))
    saved = json.loads(headgate("explain", path, "--json").stdout)
    headgate(*SIMULATE, "--journal", path)
    replayed = json.loads(headgate("explain", path, "--run", "2", "--json").stdout)
    for part in ("budgets", "spending"):
        assert replayed[part] == saved[part]


def test_a_damaged_budget_is_reported_in_one_sentence(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save_state(budget_key("job"), {"budgets": {"job": {"slo": "latency p95 < 10s"}}})
    journal.close()
    result = headgate("explain", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("headgate: the budget in the journal is damaged")


@pytest.fixture
def watched(tmp_path: Path) -> str:
    path = str(tmp_path / "watched.sqlite")
    headgate(*SIMULATE, *REACTIVE, "--shadow", "static", "--shadow", "hpa", "--journal", path)
    return path


def test_differences_of_shadows_are_reported_on_request(watched: str) -> None:
    assert "Shadow" not in headgate("explain", watched).stdout
    printed = " ".join(headgate("explain", watched, "--shadows").stdout.split())
    assert "Shadow static would have decided otherwise in" in printed
    assert "Shadow hpa would have decided otherwise in" in printed
    assert "wanted 1 where 3 was decided" in printed
    data = json.loads(headgate("explain", watched, "--shadows", "--json").stdout)
    assert set(data["shadows"]) == {"static", "hpa"}
    assert data["shadows"]["static"]["differences"][0]["decided"] > 1


def test_what_shadows_would_have_come_to_is_simulated_where_batches_tell_how(tmp_path: Path, watched: str) -> None:
    assert "Their results are not known: 0 batches" in headgate("explain", watched, "--shadows").stdout
    path = str(tmp_path / "batches.sqlite")
    load = ("--workload", "sine:mean=30,amplitude=25,period=20m", "--service-rate", "10", "--seconds", "20m")
    headgate(
        "simulate", *load, *REACTIVE, "--model", "micro-batch", "--shadow", "hpa", "--price", "2", "--journal", path
    )
    rows = json.loads(headgate("explain", path, "--shadows", "--json").stdout)["what_if"]
    assert set(rows) == {"reactive", "hpa"}
    assert rows["hpa"]["cost"] > 0
    printed = headgate("explain", path, "--shadows").stdout
    table = printed[printed.index("simulated as this job was measured") :]
    assert table.index("cost") < table.index("reactive") < table.index("hpa")


def test_a_run_without_shadows_says_so_on_request(path: Path) -> None:
    assert "No shadow policy decided in this run." in headgate("explain", str(path), "--shadows").stdout


def test_recommendations_are_marked_as_such(tmp_path: Path) -> None:
    path, page = str(tmp_path / "run.sqlite"), tmp_path / "run.html"
    printed = headgate(*SIMULATE, *REACTIVE, "--mode", "recommend", "--journal", path).stdout
    assert "4 recommended" in printed
    text = headgate("explain", path).stdout
    assert "recommended" in text
    assert "→" not in text
    data = json.loads(headgate("explain", path, "--json").stdout)
    assert "recommended" in {item["kind"] for item in data["story"]}
    assert "resize" not in {item["kind"] for item in data["story"]}
    headgate("report", path, "--html", str(page))
    assert "recommended" in page.read_text(encoding="utf-8")


def test_a_report_is_named_after_its_job_and_has_its_cost_and_fixed_sizes(tmp_path: Path) -> None:
    path, page = tmp_path / "run.db", tmp_path / "run.html"
    with closing(SqliteJournal(path)) as journal:
        journal.begin(replace(RUN, job="clicks", bounds=(1, 3)))
        for at_s in range(0, 600, 10):
            seen = observation(at_s, 2)
            arrived, done = 15.0 * at_s, 15.0 * max(0, at_s - 1)
            counted = replace(seen.samples["job"], arrived=arrived, done=done, late=0.0, processed_rate_per_s=20.0)
            journal.observed(replace(seen, samples={"job": counted}))
    assert headgate("report", str(path), "--html", str(page), "--price", "0.5").exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "<h1>clicks</h1>" in text
    assert re.search(r"It cost 0\.1\d+ \(0\.3\d+ instance hours\)", text)
    assert "Against fixed sizes" in text


def test_predictions_are_compared_with_results(tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    simulated = (
        "simulate --workload sine:mean=60,amplitude=45,period=1h --service-rate 10 --seconds 1h --startup 30s "
        f"--model micro-batch --max 15 --start 5 --journal {journal}"
    )
    assert headgate(*simulated.split()).exit_code == 0
    text = headgate("explain", str(journal)).stdout
    assert "Predictions within their interval: latency" in text
    assert "expected after 60s: latency" in text
    assert ", observed" in text
    story = json.loads(headgate("explain", str(journal), "--all", "--json", "-").stdout)
    assert story["coverage"]["latency_s"]["answered"] > 600
    changes = [item for item in story["story"] if item["kind"] == "resize" and item["expected"]]
    assert {prediction["name"] for prediction in changes[0]["expected"]} == {"backlog", "latency_s", "instances"}
    report = tmp_path / "run.html"
    assert headgate("report", str(journal), "--html", str(report)).exit_code == 0
    assert "Predictions within their interval" in report.read_text()
