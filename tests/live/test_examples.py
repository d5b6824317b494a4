"""What the README shows runs: on the cluster that live tests share, for a few seconds; and as it is, for minutes."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headgate
from headgate.journal.writer import SqliteJournal

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 6


class SharedCluster:
    """The session of the live tests in the place of a cluster of one's own."""

    spark: SparkSession

    def __init__(self, slots: int) -> None:
        assert slots > 1

    def __enter__(self) -> SharedCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for query in self.spark.streams.active:
            query.stop()

    @contextmanager
    def session(self, name: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        assert name
        yield self.spark


def decided(journal: Path) -> list[str]:
    """The events of a journal that holds decisions about a job."""
    with closing(SqliteJournal.read(journal)) as reader:
        assert reader.decisions()
        return [event.kind for event in reader.events()]


def test_the_ten_lines_scale_a_job(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = StreamingQuery.awaitTermination
    monkeypatch.setattr(SharedCluster, "spark", spark, raising=False)
    monkeypatch.setattr(headgate, "LocalCluster", SharedCluster)
    monkeypatch.setattr(StreamingQuery, "awaitTermination", lambda query, _: waited(query, SECONDS))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "ten_lines.py"), run_name="__main__")
    assert decided(tmp_path / "run.db")[-1] == "stopped"


@pytest.mark.soak
def test_the_ten_lines_with_kafka_run_as_they_are(tmp_path: Path) -> None:
    """Those of the README are run with its other commands, by test_doc_commands.py."""
    subprocess.run([sys.executable, str(EXAMPLES / "ten_lines_kafka.py")], cwd=tmp_path, check=True, timeout=280)
    assert decided(tmp_path / "run.db")[-1] == "stopped"
