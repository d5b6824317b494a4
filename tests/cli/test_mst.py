"""headgate mst: what it refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.lab.mst import MstPlan
from headgate.lab.own_job import OwnJob, find_own_job
from tests.cli.commands import refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steady-jb",), "unknown application 'steady-jb', did you mean 'steady-job'?"),
        (("steady-job", "--executors", "1,x"), "--executors '1,x' is not understood; write whole numbers with commas"),
        (("steady-job", "--executors", "3"), "executors 3 are too few; a curve needs at least 2 sizes."),
        (
            ("steady-job", "--validate", "2"),
            "executors 1,2,4,2 are not allowed; each must be at least 1 and",
        ),
        ((), "either one APP or --all is needed; write for example headgate mst steady-job."),
        (("grep", "--all"), "either one APP or --all is needed"),
        (("my_job.py",), "there is no file my_job.py; give a Python file with a function that builds the query."),
        (("my_job.py:start",), "there is no file my_job.py; "),
        (("steady-job", "--cost", "soon"), "--cost: duration 'soon' is not understood"),
        (("steady-job", "--save", "no/such/folder.json"), "there is no folder no/such"),
    ],
)
def test_what_cannot_be_measured_is_told_before_a_cluster_is_started(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused("mst", *arguments)


@pytest.mark.parametrize(
    ("file", "text", "asked", "said"),
    [
        ("my_job.py", "def make(spark, plan): ...", "my_job.py", "unknown function of my_job.py 'build'. Known: make."),
        ("my_job.py", "def build(spark, plan): ...", "my_job.py:bild", "did you mean 'build'? Known: build."),
        ("my_job.py", "def build(", "my_job.py", "my_job.py cannot be used: "),
        ("my-job.py", "def build(spark, plan): ...", "my-job.py", "its name must be one of a Python module"),
    ],
)
def test_a_file_without_the_function_is_told_before_a_cluster_is_started(
    file: str, text: str, asked: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(text)
    assert said in refused("mst", asked)


def test_a_job_of_ones_own_is_planned_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_job.py").write_text("def build(spark, plan): ...")
    assert find_own_job("my_job.py") == find_own_job("my_job.py:build") == OwnJob(Path("my_job.py"))
    plan = MstPlan(executors=(1, 2), app="my_job", own=find_own_job("my_job.py"))
    assert plan.rows_per_batch(100.0) == 200
