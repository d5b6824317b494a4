"""headgate simulate: the options decide what runs, and bad input is refused before anything runs."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headgate.journal.writer import SqliteJournal
from tests.cli.commands import REACTIVE, SIMULATE, headgate, refused


def simulated(*arguments: str) -> Any:
    result = headgate(*SIMULATE, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_json_has_summary_series_and_decisions() -> None:
    data = simulated(
        "--policy", "threshold", "--set", "upper_for_s=10s", "--guard", "in_after_out_s=2m", "--startup", "30s"
    )
    assert set(data["summary"]) == {
        "slo_violation_pct", "late_records_pct", "qos_pct", "mean_instances", "instance_seconds", "rescales",
        "max_backlog", "latency_p50_s", "latency_p95_s", "latency_p99_s", "cost",
    }  # fmt: skip
    assert set(data["series"][0]) == {"t", "input_rate", "backlog", "latency_s", "ready", "planned"}
    assert {"t", "operator", "from", "to", "reason"} <= set(data["decisions"][0])
    assert data["decisions"][0]["operator"] == "job"
    assert data["series"][-1]["t"] == 300


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        ([], {"policy": "autopilot", "objective": "latency p95 < 10s", "interval_s": 5, "start": 1, "model": "queue"}),
        (
            ["--objective", "latency p95 < 10s per 6h by time, cost < 12 per day", "--price", "0.5"],
            {"objective": "latency p95 < 10s per 6h by time, cost < 12 per day, price 0.5"},
        ),
        (["--min", "2", "--max", "7"], {"min_instances": 2, "max_instances": 7, "start": 2}),
        (["--model", "micro-batch"], {"readings": "spark"}),
        (["--model", "micro-batch", "--readings", "perfect"], {"readings": "perfect"}),
        (
            ["--startup", "30s", "--startup-spread", "0.3", "--drain", "4s"],
            {"startup_s": 30, "startup_spread": 0.3, "drain_s": 4},
        ),
        (["--start", "3", "--startup", "1.5m"], {"start": 3, "startup_s": 90}),
        (["--interval", "250ms", "--seconds", "2m"], {"interval_s": 0.25, "seconds": 120}),
        (["--seconds", "90"], {"seconds": 90}),
        (["--model", "micro-batch", "--seed", "7"], {"model": "micro-batch", "seed": 7}),
        (["--policy", "static", "--set", "instances=4"], {"policy": "static", "settings": {"instances": 4}}),
    ],
)
def test_the_options_decide_what_runs(arguments: list[str], ran: dict[str, Any]) -> None:
    run = simulated(*arguments)["run"]
    assert {name: run[name] for name in ran} == ran


def test_the_same_seed_gives_the_same_json() -> None:
    assert simulated("--seed", "3") == simulated("--seed", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "reactiv"], "unknown policy 'reactiv', did you mean 'reactive'?"),
        ([*REACTIVE, "--set", "headrom=0.5"], "unknown setting of reactive 'headrom', did you mean 'headroom'?"),
        ([*REACTIVE, "--set", "headroom=lots"], "reactive setting headroom 'lots' is not allowed"),
        (["--set", "headroom"], "--set 'headroom' is not understood"),
        (["--guard", "max_ot=1"], "unknown setting of guards 'max_ot', did you mean 'max_out'?"),
        (["--workload", "constnt:10"], "unknown workload 'constnt', did you mean 'constant'?"),
        (["--workload", "csv:missing.csv"], "missing.csv"),
        (["--objective", "latency < fast"], "objective 'latency < fast' is not usable"),
        (["--seconds", "soon"], "--seconds: duration 'soon' is not understood"),
        (["--startup", "-5s"], "--startup: duration '-5s' is not understood"),
        (["--interval", "0s"], "--interval 0.0 is not allowed"),
        (["--service-rate", "0"], "--service-rate 0.0 of job is not allowed"),
        (["--min=-1"], "--min -1 is not allowed"),
        (["--min", "5", "--max", "2"], "--max 2 is below --min 5"),
        (["--start", "99"], "start 99 is not allowed"),
        (["--model", "qeue"], "unknown model 'qeue', did you mean 'queue'?"),
        (["--journal", "/no/such/run.sqlite"], "there is no folder /no/such"),
        (["--report", "/no/such/run.html"], "there is no folder /no/such"),
    ],
)
def test_bad_input_is_reported_in_one_sentence(arguments: list[str], message: str) -> None:
    assert message in refused(*SIMULATE, *arguments)


def test_without_json_it_prints_figures_plots_and_the_changes_with_their_reasons() -> None:
    printed = headgate(*SIMULATE, *REACTIVE, "--startup", "30s").stdout
    for text in ("reactive on constant:25", "input rate", "instances ready", "objective violated", "Changes of size"):
        assert text in printed
    assert "latency" in printed.split("Changes of size")[1]


def test_in_a_narrow_terminal_figures_stand_below_each_other_in_whole_words() -> None:
    printed = headgate(*SIMULATE, *REACTIVE, width=40).stdout
    assert "…" not in printed
    assert "latency p50 / p95 /" in printed
    assert max(map(len, printed.splitlines())) <= 40


def test_a_size_that_never_changes_is_reported() -> None:
    assert "The size was never changed." in headgate(*SIMULATE, "--policy", "static", "--start", "3").stdout


def test_the_journal_keeps_the_whole_run(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    headgate(*SIMULATE, "--journal", str(path))
    headgate(*SIMULATE, "--policy", "static", "--journal", str(path))
    with closing(SqliteJournal.read(path)) as journal:
        assert [(number, run.policy) for number, run in journal.runs()] == [(1, "autopilot"), (2, "static")]
        assert len(journal.decisions(run=1)) == 60
        assert [event.kind for event in journal.events(run=1)] == ["started", "stopped"]


def test_the_report_compares_with_fixed_sizes(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    result = headgate(*SIMULATE, "--max", "25", "--report", str(path))
    assert f"report: {path}" in result.stdout
    page = path.read_text()
    for size in ("1 instance", "25 instances"):
        assert f">{size}</td>" in page


def test_a_report_without_plotly_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    message = refused(*SIMULATE, "--report", str(tmp_path / "run.html"))
    assert message == "a report needs plotly, which is not installed: pip install 'headgate[reports]'."


def test_an_objective_is_taken_from_a_file_with_its_bounds(tmp_path: Path) -> None:
    file = tmp_path / "objective.yaml"
    file.write_text("slo: latency p99 < 5s\nper: 6h\nprice: 0.5\ninstances: [2, 6]\n")
    run = simulated("--objective", str(file), "--max", "4")["run"]
    assert run["objective"] == "latency p99 < 5s per 6h, price 0.5"
    assert (run["min_instances"], run["max_instances"], run["start"]) == (2, 4, 2)


def test_the_json_has_the_error_budget_and_the_money() -> None:
    data = simulated("--price", "2")
    assert data["version"] == 3
    assert data["budgets"]["job"]["asked"] == "latency p95 < 10s"
    assert data["spending"]["spent"] == pytest.approx(data["summary"]["cost"])
    assert data["summary"]["cost"] == pytest.approx(2 * data["summary"]["instance_seconds"] / 3600)


def test_a_job_may_be_as_fast_as_one_that_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "mst.json"
    curve = [{"executors": size, "throughput_per_s": rate} for size, rate in ((1, 10.0), (2, 15.0), (3, 16.0))]
    file.write_text(json.dumps({"version": 1, "curve": curve}))
    job = ("--workload", "constant:20", "--seconds", "10m", "--model", "micro-batch", "--min", "3", "--max", "3")
    fast, slow = (
        headgate("simulate", *job, *REACTIVE, "--service-rate", service, "--json") for service in ("10", str(file))
    )
    late = [json.loads(result.stdout)["summary"]["late_records_pct"] for result in (fast, slow)]
    assert (late[0] < 10, late[1] > 50) == (True, True), "three of them get through 30 records/s, or 16"


def test_a_job_can_be_described_by_a_service_model() -> None:
    service = "saturating:rate=10,contention=0.05,pause=3s,skew=20%,startup=40s"
    run = simulated(*REACTIVE, "--service-rate", service)["run"]
    assert (run["service_rate_per_s"], run["startup_s"], run["model"]) == (10.0, 40.0, "micro-batch")
    assert (run["micro_batch"]["rescale_pause_s"], run["micro_batch"]["skew"]) == (3.0, 0.2)
    assert len(run["micro_batch"]["speed_up"]) == run["max_instances"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--service-rate", "fast"), "--service-rate 'fast' is neither a number nor a file; write for example 10"),
        (("--service-rate", "mst.json", "--model", "queue"), "--model queue does not go with the model file mst.json"),
        (("--service-rate", "mst.json"), "model file 'mst.json' has version None; version 1 is needed"),
        (("--service-rate", "retrogade:rate=10"), "unknown service model 'retrogade', did you mean 'retrograde'?"),
        (("--service-rate", "saturating:rate=10"), "service model 'saturating:rate=10' lacks contention; write for"),
        (
            ("--service-rate", "retrograde:rate=10,contention=0.03,coherency=0.002"),
            "gets through most at 22.0 instances, which is not below the 10 that are allowed",
        ),
        (
            ("--service-rate", "linear:rate=10", "--model", "queue"),
            "--model queue does not go with the service model linear:rate=10; it is of a micro-batch job.",
        ),
        (
            ("--service-rate", "linear:rate=10,startup=30s", "--startup", "10s"),
            "--startup 10s does not go with startup= in the service model linear:rate=10,startup=30s; one is enough.",
        ),
    ],
)
def test_an_impossible_service_rate_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mst.json").write_text("{}")
    assert message in refused(*SIMULATE, *arguments)


def test_totals_are_of_the_whole_run_and_not_of_the_last_day(tmp_path: Path) -> None:
    # All late records come on the first of three days.
    load = ("--workload", "spike:base=1,peak=40,at=0s,width=3h", "--service-rate", "10", "--max", "2")
    day = ("--seconds", "3d", "--interval", "10m", "--price", "0.5", "--policy", "static", "--start", "2")
    journal = tmp_path / "run.sqlite"
    printed = headgate("simulate", *load, *day, "--set", "instances=2", "--journal", str(journal)).stdout
    for text in (printed, headgate("explain", str(journal)).stdout):
        assert "in 3d 65.1 % of 680,400 records" in text
        assert "Cost: 72 in 3d; 24 in the last day." in text
        assert "Error budget: 0 % of the last day spent" in text


def test_lines_that_differ_from_the_figures_are_explained() -> None:
    """In a long batch, Spark does not report that fewer records arrive than before."""
    spike = ("--workload", "spike:base=20,peak=120,at=1m,width=1m", "--seconds", "10m", "--max", "4", "--start", "4")
    run = ("simulate", "--policy", "static", "--set", "instances=4", *spike, "--service-rate", "10")
    note = "The lines are of readings, which estimate what arrives during a batch; the figures are of the truth."
    assert note in " ".join(headgate(*run, "--model", "micro-batch").stdout.split())
    assert note not in " ".join(headgate(*run, "--model", "micro-batch", "--readings", "perfect").stdout.split())


def test_a_run_of_a_week_decides_less_often_and_says_so() -> None:
    week = ("simulate", "--policy", "static", "--workload", "constant:5", "--service-rate", "10", "--seconds", "7d")
    shown = headgate(*week)
    assert "A decision every 30s, because the run is long; --interval sets another." in shown.stdout
    assert "A decision every" not in headgate(*week, "--interval", "1h").stdout
    data = json.loads(headgate(*week, "--json").stdout)
    assert data["run"]["interval_s"] == 30.0
