"""A job of the user's own: its function is imported from its file, and what it raises is reported with its name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import EngineError, InputError
from headgate.engines.spark.query_plan import Plan
from headgate.lab.own_job import OwnJob, find_own_job

JOBS = """
def build(spark, plan):
    return ("built", plan.source_options["maxOffsetsPerTrigger"])

def broken(spark, plan):
    raise KeyError("topic")
"""


class Session:
    """Stands for a session and records what it receives."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.sent: list[str] = []

    def addPyFile(self, file: str) -> None:  # noqa: N802 - Spark's name
        self.sent.append(file)


class Query:
    """Stands for what starts a query: calls the function, and stores the result."""

    def __init__(self, spark: Session, build: Any, checkpoint: Path) -> None:
        self.query: Any = None
        self._given = (spark, build, checkpoint)

    def start(self, plan: Plan) -> None:
        spark, build, checkpoint = self._given
        self.query = (build(spark, plan), checkpoint)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("headgate.engines.spark.managed_query.ManagedQuery", Query)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_measured_job", raising=False)
    path = tmp_path / "my_measured_job.py"
    path.write_text(JOBS)
    return path


def test_the_function_builds_the_query_with_a_limit_for_batches(file: Path, tmp_path: Path) -> None:
    spark: Any = Session()
    job = find_own_job(str(file))
    assert job == OwnJob(file)
    started: Any = job.start(spark, Plan(max_records_per_batch=500), tmp_path / "checkpoint")
    assert started == (("built", "500"), tmp_path / "checkpoint")
    assert spark.sent == [str(file)]


def test_what_the_function_raises_is_reported_with_its_name(file: Path, tmp_path: Path) -> None:
    job = find_own_job(f"{file}:broken")
    assert job is not None
    spark: Any = Session()
    with pytest.raises(EngineError) as caught:
        job.start(spark, Plan(), tmp_path)
    assert str(caught.value) == f"{file}:broken could not be started: KeyError: 'topic'."


def test_a_file_that_cannot_be_imported_is_reported(file: Path, tmp_path: Path) -> None:
    file.write_text("import no_such_module\n" + JOBS)
    spark: Any = Session()
    with pytest.raises(InputError, match=r"cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"):
        OwnJob(file).start(spark, Plan(), tmp_path)


@pytest.mark.parametrize(
    ("source", "expected"), [('spark.readStream.format("kafka")', True), ("spark.range(3)", False)]
)
def test_a_job_on_kafka_is_recognised(tmp_path: Path, source: str, expected: bool) -> None:
    file = tmp_path / "job.py"
    file.write_text(f"def build(spark, plan):\n    return {source}\n")
    assert OwnJob(file).names_kafka is expected
