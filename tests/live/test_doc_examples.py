"""The examples of the documentation that scale a session run as they are printed, for some seconds on real Spark."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.streaming import StreamingContext

import headgate
from headgate.apps.load_source import LoadSource
from headgate.apps.steady_job import working
from headgate.core.types import Decision, Observation
from headgate.runtime.autoscaler import Autoscaler
from tests.cli.commands import headgate as headgate_command
from tests.docs.blocks import ROOT, blocks
from tests.live.support import eventually
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]

PRINTED = {block.name: block.text for block in blocks() if block.language in ("python", "yaml")}
FILES = {
    "objective.yaml": "docs/objectives.md yaml 1",
    "rules.yaml": "docs/guides/rules.md yaml 1",
    "lab/tune-hpa/settings.yaml": "docs/guides/tune.md yaml 1",
}
"""What examples read, and where it is printed."""
ON_A_SESSION = (
    "docs/guides/measure-mst.md python 2",
    "docs/guides/metrics.md python 1",
    "docs/guides/metrics.md python 2",
    "docs/guides/metrics.md python 3",
    "docs/guides/rules.md python 1",
    "docs/guides/shadows.md python 1",
    "docs/guides/shadows.md python 2",
    "docs/guides/spark.md python 1",
    "docs/guides/tune.md python 1",
    "docs/journal.md python 2",
    "docs/objectives.md python 1",
    "docs/objectives.md python 2",
    "docs/policies/q-learning.md python 1",
)
SECONDS = 8.0


class Gauges:
    """Stands for the metrics library of the reader of the guide."""

    def __init__(self) -> None:
        self.reported: list[dict[str, Any]] = []

    def set(self, **values: Any) -> None:
        self.reported.append(values)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, printed in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(PRINTED[printed])
    shutil.copy(next(iter(sorted((ROOT / "src/headgate/runtime/models").glob("*.json")))), tmp_path / "mst.json")
    monkeypatch.chdir(tmp_path)
    learned = "--workload constant:20 --service-rate 10 --seconds 10m --save-state learned.json"
    options = ("--policy", "q-learning", "--objective", "latency p95 < 30s")
    assert headgate_command("simulate", *options, *learned.split()).exit_code == 0
    return tmp_path


@pytest.fixture
def query(spark: SparkSession) -> Iterator[StreamingQuery]:
    """A query that ends by itself, so that waiting for its end is as printed."""
    spark.dataSource.register(LoadSource)
    events = spark.readStream.format("headgate-load").option("workload", "constant:20").load()
    running = events.mapInArrow(working(0.005), events.schema).writeStream.format("noop").start()
    ends = threading.Timer(SECONDS, running.stop)
    ends.start()
    yield running
    ends.join()


@dataclass
class Started:
    """The autoscalers that an example started, and what they decided."""

    autoscalers: list[Autoscaler] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def seen(self, _: Observation | None, decision: Decision | None) -> None:
        if decision is not None:
            self.decisions.append(decision)

    def has_decided(self) -> bool:
        return len(self.decisions) > 1

    def stop(self) -> None:
        for autoscaler in self.autoscalers:
            autoscaler.stop()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Started]:
    """What an example starts; stopped after it, and nothing of it may have failed."""
    found = Started()

    def autoscale(*given: Any, **named: Any) -> Autoscaler:
        # The session of live tests was started small by Spark's own allocation, which guides have switched off.
        found.autoscalers.append(usual(*given, **{"take_over": True, **named}))
        found.autoscalers[-1].watch(found.seen)
        return found.autoscalers[-1]

    usual: Callable[..., Autoscaler] = headgate.autoscale
    monkeypatch.setattr(headgate, "autoscale", autoscale)
    yield found
    found.stop()
    assert len(found.autoscalers) == 1
    assert found.has_decided()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def run(printed: str, **given: Any) -> dict[str, Any]:
    names = {"headgate": headgate, **given}
    exec(compile(printed, "example", "exec"), names)  # noqa: S102 - our own documentation
    return names


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ON_A_SESSION)
def test_an_example_scales_a_session(name: str, spark: SparkSession, query: StreamingQuery, started: Started) -> None:
    gauges = Gauges()
    run(PRINTED[name], spark=spark, query=query, gauges=gauges)
    eventually("two decisions", started.has_decided)
    assert bool(gauges.reported) == ("gauges" in PRINTED[name])


def test_the_example_writes_a_journal_in_postgres(spark: SparkSession, query: StreamingQuery, started: Started) -> None:
    with PostgresServer() as server:
        printed = PRINTED["docs/journal.md python 1"]
        names = run(
            printed.replace("postgresql://headgate@db.example:5432/headgate", server.new_database()),
            spark=spark,
            query=query,
        )
        eventually("two decisions", started.has_decided)
        started.stop()
        names["journal"].close()


def test_the_example_scales_a_streaming_context(spark: SparkSession, started: Started) -> None:
    ssc = StreamingContext(spark.sparkContext, 2)
    ssc.queueStream([spark.sparkContext.range(10) for _ in range(4)]).count().pprint()
    ssc.start()
    ends = threading.Timer(SECONDS, ssc.stop, kwargs={"stopSparkContext": False})
    ends.start()
    run(PRINTED["docs/guides/spark.md python 2"], ssc=ssc)
    ends.join()


def test_the_example_starts_a_session_small(folder: Path) -> None:
    """In a process of its own: a process has one session."""
    program = folder / "starts_small.py"
    program.write_text(
        "import headgate\nfrom pyspark.sql import SparkSession\n"
        "with headgate.LocalCluster(slots=2) as cluster:\n"
        "    builder = SparkSession.builder.master(cluster.master_url)\n"
        + "".join(f"    {line}\n" for line in PRINTED["docs/guides/spark.md python 3"].splitlines())
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=120)


def test_the_example_of_the_kafka_guide_runs(folder: Path) -> None:
    program = folder / "orders.py"
    program.write_text(PRINTED["docs/guides/kafka.md python 1"])
    began_s = time.monotonic()
    subprocess.run([sys.executable, str(program)], check=True, timeout=240)
    assert time.monotonic() - began_s > 60
