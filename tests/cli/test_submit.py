"""headgate submit: job files are checked in full; programs run in tests/live/test_submit.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.runtime.job_file import read_job_file
from tests.cli.commands import headgate, refused

JOB = """\
script: job.py
arguments: [--topic, orders, 3]
objective: latency p95 < 10s
executors: [2, 6]
price: 0.25
policy: hpa
settings: {target: 0.6}
guards: {in_after_out_s: 2m}
journal: run.db
interval: 2s
conf: {spark.executor.cores: 2}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text("print('hello')\n")
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def test_a_job_file_says_what_runs_and_how_it_is_scaled(file: Path) -> None:
    job = read_job_file(file)
    assert (job.script, list(job.arguments)) == (file.parent / "job.py", ["--topic", "orders", "3"])
    assert (job.objective.min_instances, job.objective.max_instances, job.policy) == (2, 6, "hpa")
    assert job.conf == {"spark.executor.cores": "2"}
    assert job.options["journal"] == file.parent / "run.db"
    assert job.options["settings"] == {"target": "0.6"}
    assert job.options["interval"] == 2.0
    printed = headgate("submit", str(file), "--check").stdout
    assert "is valid: " in printed
    assert "latency p95 < 10s, price 0.25, 2 to 6 executors, by hpa." in printed


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("script: job.py", "script: jib.py", "1:9: script: there is no file"),
        ("price: 0.25", "price: much", "5:8: price: found 'much', expected a number"),
        ("interval: 2s", "metrics_port: any", "10:15: metrics_port: found 'any', expected a whole number"),
        ("price: 0.25", "start: 7", "5:8: found 7 executors; 2 to 6 are allowed."),
        ("p95 < 10s", "p95 ~ 10s", "3:12: objective 'latency p95 ~ 10s' is not understood"),
        ("[2, 6]", "[6, 2]", "4:12: executors: found 6 as the fewest and 2 as the most"),
        ("policy: hpa", "policy: hap", "unknown policy 'hap', did you mean 'hpa'?"),
        ("target: 0.6", "target: much", "hpa setting target 'much' is not allowed"),
        (
            "in_after_out_s",
            "in_after_ot_s",
            "unknown setting of guards 'in_after_ot_s', did you mean 'in_after_out_s'?",
        ),
        ("price:", "prize:", "did you mean price?"),
    ],
)
def test_a_wrong_job_file_is_refused_with_the_place(file: Path, before: str, after: str, message: str) -> None:
    file.write_text(JOB.replace(before, after))
    assert message in refused("submit", str(file), "--check").replace("'price'", "price")
    found = headgate("submit", str(file), "--check", "--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout)["valid"] is False


def test_a_job_may_begin_with_fewer_executors_than_a_standalone_cluster_would_give_it(file: Path) -> None:
    file.write_text(
        f"{JOB}start: 2\nmetrics_port: 9095\n".replace("spark.executor.cores: 2", "spark.decommission.enabled: false")
    )
    job = read_job_file(file)
    assert job.conf["spark.dynamicAllocation.initialExecutors"] == "2"
    assert job.conf["spark.decommission.enabled"].lower() == "false", "what the file says comes first"
    assert (job.options["take_over"], job.options["metrics_port"]) == (True, 9095)


def test_the_schema_names_every_key() -> None:
    schema = json.loads(headgate("submit", "--schema").stdout)
    assert schema["required"] == ["script", "objective"]
    assert {"conf", "executors", "rules", "take_over"} <= schema["properties"].keys()


def test_the_launcher_is_a_program_for_spark_submit(tmp_path: Path) -> None:
    path = tmp_path / "launch.py"
    assert headgate("submit", "--launcher", str(path)).exit_code == 0
    compile(path.read_text(), str(path), "exec")


def test_a_job_must_be_named() -> None:
    assert refused("submit") == "the job file is missing; write headgate submit job.yaml."
