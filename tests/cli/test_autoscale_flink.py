"""headgate autoscale-flink: a job is looked after from outside, and whatever is wrong is one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.common import with_json_target
from headgate.journal.writer import SqliteJournal
from headgate.local.machine import LOOPBACK, free_ports
from tests.engines.flink.small_job import SLOW, SmallJob, WallClock, played_by, without_sizes
from tests.engines.flink.stand_in import StandIn, standing_in


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in() as server:
        yield server


@pytest.fixture
def job(stand_in: StandIn) -> SmallJob:
    made = SmallJob(WallClock(), offered_per_s=100)
    made.life_s -= 60  # It has been running for a while, and is warm.
    played_by(made, stand_in)
    return made


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, with_json_target(["autoscale-flink", *words]))
    return result.exit_code, result.output


def test_a_job_is_scaled_and_accounted_for(stand_in: StandIn, job: SmallJob, tmp_path: Path) -> None:
    journal, out = tmp_path / "run.db", tmp_path / "out.json"
    settings = ["--set", "policy_interval_s=0.5", "--set", "warm_up_s=0.5"]
    code, output = run(
        "--url", stand_in.url, "--job", "clicks", "--policy", "ds2", *settings, "--max", "4",
        "--interval", "0.4s", "--seconds", "5s", "--journal", str(journal), "--json", str(out),
    )  # fmt: skip
    assert code == 0, output
    assert "slow 1 → 2: " in output
    assert "rescaled: slow 1 → 2 at work" in output
    assert job.wanted[SLOW] == 2
    report = json.loads(out.read_text())
    assert report["version"] == 1
    assert report["operators"]["slow"]["rescales"] == 1
    assert report["operators"]["clicks"]["rescales"] == 0
    with closing(SqliteJournal.read(journal)) as reader:
        ((number, recorded),) = reader.runs()
        assert (recorded.engine, recorded.job, recorded.operators) == ("flink", "clicks", ("clicks", "slow", "count"))
        assert "rescaled" in [event.kind for event in reader.events(run=number)]
    explained = CliRunner().invoke(app, ["explain", str(journal)])
    assert explained.exit_code == 0
    assert "1 → 2" in explained.output


def test_recommending_changes_nothing(stand_in: StandIn, job: SmallJob) -> None:
    code, output = run(
        "--url", stand_in.url, "--job", "clicks", "--policy", "static", "--set", "instances=3", "--recommend",
        "--interval", "0.3s", "--seconds", "1s",
    )  # fmt: skip
    assert code == 0, output
    assert stand_in.changes == []


def test_recommending_needs_no_adaptive_scheduler(stand_in: StandIn, job: SmallJob, tmp_path: Path) -> None:
    stand_in.answered_by = without_sizes(job, "1.20.5")
    journal = tmp_path / "run.db"
    code, output = run(
        "--url", stand_in.url, "--job", "clicks", "--policy", "static", "--set", "instances=3", "--recommend",
        "--interval", "0.3s", "--seconds", "1s", "--journal", str(journal),
    )  # fmt: skip
    assert code == 0, output
    assert stand_in.changes == []
    assert "slow 1, 3 recommended: the size is fixed at 3" in output
    assert re.search(r"rescales: 0; \d recommended", output)
    assert "1, 3 recommended" in CliRunner().invoke(app, ["explain", str(journal)]).output


def test_figures_are_printed_although_the_file_cannot_be_written(stand_in: StandIn, job: SmallJob) -> None:
    static = ("--policy", "static", "--interval", "0.3s", "--seconds", "1s")
    code, output = run("--url", stand_in.url, "--job", "clicks", *static, "--json", "/dev/full")
    assert code == 3
    assert "headgate: /dev/full cannot be written: no space left on device." in output
    assert "slow" in output


FAULTS = (
    (["--job", "click"], 2, "unknown job at http://", "did you mean 'clicks'?"),
    (["--job", "clicks", "--policy", "ds3"], 2, "unknown policy 'ds3'", "did you mean 'ds2'?"),
    (["--job", "clicks", "--min", "5", "--max", "4"], 2, "--max 4 is below --min 5", "at least as large"),
    (["--job", "clicks", "--provider", "docker"], 2, "unknown provider 'docker'", "Known: kubernetes, local, none."),
    (["--job", "clicks", "--provider", "local"], 1, "Flink cluster", "."),
    (["--job", "clicks", "--provider", "kubernetes"], 2, "provider kubernetes needs the Deployment", "."),
    (["--job", "clicks", "--objective", "fast"], 2, "'fast'", "."),
    (["--job", "clicks", "--interval", "soon"], 2, "--interval", "'soon'"),
    (["--job", "clicks", "--rules", "missing.yaml"], 2, "missing.yaml", "."),
)


@pytest.mark.parametrize(("words", "code", "message", "more"), FAULTS)
def test_what_is_wrong_is_one_sentence(
    stand_in: StandIn, job: SmallJob, words: list[str], code: int, message: str, more: str
) -> None:
    found, output = run("--url", stand_in.url, *words)
    assert found == code, output
    assert message in output
    assert more in output
    assert "Traceback" not in output
    assert stand_in.changes == []


def test_a_cluster_that_cannot_rescale_is_a_fault_of_the_input(stand_in: StandIn, job: SmallJob) -> None:
    stand_in.answered_by = without_sizes(job, "1.20.5")
    code, output = run("--url", stand_in.url, "--job", "clicks")
    assert code == 2
    assert "cannot be rescaled while it runs; Flink answers: The DefaultScheduler does not support" in output
    assert "the cluster needs Flink 1.18 or newer, and 'jobmanager.scheduler: adaptive'." in output
    assert stand_in.changes == []


def test_nobody_at_the_address_is_said() -> None:
    (port,) = free_ports(1)
    code, output = run("--url", f"http://{LOOPBACK}:{port}", "--job", "clicks")
    assert code == 1
    assert f"headgate: Flink at http://{LOOPBACK}:{port} does not answer: " in output


def test_the_engine_is_listed() -> None:
    result = CliRunner().invoke(app, ["engines"])
    assert result.exit_code == 0
    assert "flink" in result.output
    assert "autoscale-flink" in result.output
