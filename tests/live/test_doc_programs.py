"""Examples of the documentation that need a broker, services, Flink or a longer run, as they are printed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate
import headgate.apps.payloads
from headgate.agent.join import RunningAgent
from headgate.apps.load_source import LoadSource
from headgate.apps.steady_job import SteadyJob, working
from headgate.apps.texts import PATTERN
from headgate.core.types import Decision, Observation
from headgate.engines.spark import SparkEngine
from headgate.journal.writer import SqliteJournal
from headgate.lab.fidelity import COMPARED
from headgate.local.kafka import LocalKafka
from headgate.local.machine import free_ports
from headgate.local.records import TopicSink
from headgate.local.spark.cluster import LocalCluster
from headgate.runtime.managed.run import ManagedRun
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.workloads.payloads import make_payloads
from tests.docs.blocks import blocks
from tests.live.support import eventually, resize
from tests.live.test_pipeline import Spectator
from tests.live.test_pipeline import run as run_pipeline
from tests.live.test_service import serving
from tests.postgres import PostgresServer
from tests.traces import needs_traces

pytestmark = pytest.mark.soak

PRINTED = {block.name: block.text for block in blocks()}
BROKER = "broker:9092"
START_MS = 1_700_000_000_000


def run(printed: str, **given: Any) -> dict[str, Any]:
    """Run an example; what it has made."""
    made: dict[str, Any] = {"headgate": headgate, **given}
    exec(compile(printed, "example", "exec"), made)  # noqa: S102 - our own documentation
    return made


def send(kafka: LocalKafka, topic: str, application: str, records: int) -> None:
    """Records of an application, fifty to a second of event time."""
    sink = TopicSink(kafka.bootstrap, topic)
    assert sink.send(make_payloads(application).records(0, START_MS + 20 * np.arange(records))) == records
    sink.flush()


def numbers(rows: list[Any]) -> list[int]:
    return sorted(json.loads(row.value)["number"] for row in rows)


def one_executor(spark: SparkSession) -> None:
    engine = SparkEngine(spark, take_over=True, drain_timeout_s=20.0)
    resize(engine, 1)
    engine.close()


# ------------------------------------------------------------------------------------------------- records and queries


def test_an_application_on_a_topic_gives_what_a_batch_computes(
    spark: SparkSession, kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topic("words", partitions=2)
    send(kafka, "words", "rolling-count", 3000)
    # Where a driver that was started elsewhere writes to is not this test's folder.
    printed = PRINTED["docs/apps.md python 1"].replace(BROKER, kafka.bootstrap)
    run(printed.replace('"counts', f'"{tmp_path}/counts'), spark=spark)
    reported = capsys.readouterr().out
    assert "missing=0, unexpected=0, doubled=0, wrong=0" in reported
    assert int(re.findall(r"expected=(\d+)", reported)[-1]) > 100


@needs_traces
def test_the_records_of_a_load_are_a_source(spark: SparkSession) -> None:
    records: DataFrame = run(PRINTED["docs/guides/load.md python 1"], spark=spark)["records"]
    query = records.writeStream.format("memory").queryName("read_records").start()
    try:
        eventually("some hundred records", lambda: spark.table("read_records").count() > 500)
    finally:
        query.stop()
    read = numbers(spark.table("read_records").collect())
    assert read == list(range(len(read)))


def test_a_managed_query_counts_what_comes_and_is_scaled(
    spark: SparkSession, kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("clicks", partitions=2)
    counted: dict[str, int] = {}
    runs: list[ManagedRun] = []
    usual: Callable[..., ManagedRun] = headgate.run

    def write(batch: DataFrame, number: int) -> None:
        counted.update({row["key"].decode(): row["count"] for row in batch.collect()})

    def managed(*given: Any, **named: Any) -> ManagedRun:
        # The session of live tests was started small by Spark's own allocation, which the guide has switched off.
        runs.append(usual(*given, spark=spark, take_over=True, **named))
        return runs[-1]

    def send_and_stop() -> None:
        eventually("the query reads", lambda: bool(runs and runs[0].query and runs[0].query.lastProgress))
        send(kafka, "clicks", "numbered", 600)
        eventually("all are counted", lambda: sum(counted.values()) == 600)
        runs[0].stop()

    one_executor(spark)
    monkeypatch.setattr(headgate, "run", managed)
    printed = PRINTED["docs/guides/managed.md python 1"].replace(BROKER, kafka.bootstrap)
    printed = printed.replace("/data/checkpoints", str(tmp_path)).replace("clicks.db", str(tmp_path / "clicks.db"))
    feeding = threading.Thread(target=send_and_stop)
    feeding.start()
    run(printed, write=write)
    feeding.join()
    assert sum(counted.values()) == 600
    assert decided(tmp_path / "clicks.db")


def decided(journal: Path) -> bool:
    with closing(SqliteJournal.read(journal)) as reader:
        return bool(reader.decisions())


def test_a_rule_goes_by_what_the_job_observes_and_by_a_callable(spark: SparkSession, tmp_path: Path) -> None:
    """The example makes the rules; that they decide is shown with the job that it observes."""

    class Shop:
        def open_orders(self) -> int:
            return 7

    (tmp_path / "rules.yaml").write_text(
        "metrics: [fraud, open_orders]\n"
        "rules:\n"
        "  - name: much fraud\n"
        "    scale_out: job\n"
        "    by: 1\n"
        "    never_above: 2\n"
        "    when:\n"
        "      - {metric: fraud, above: 5, for_at_least: 2s}\n"
        "      - {metric: open_orders, above: 6, for_at_least: 2s}\n"
    )
    one_executor(spark)
    events = (
        spark.readStream.format("rate").option("rowsPerSecond", "40").load().selectExpr("value % 2 = 0 AS is_fraud")
    )
    printed = PRINTED["docs/guides/rules.md python 3"].replace("rules.yaml", str(tmp_path / "rules.yaml"))
    made = run(printed, events=events, shop=Shop())
    query = made["observed"].writeStream.format("noop").trigger(processingTime="1 second").start()
    reasons: list[str] = []

    def keep(_: Observation | None, decision: Decision | None) -> None:
        if decision is not None and not decision.is_hold:
            reasons.append(decision.verdicts["job"].reason)

    try:
        with headgate.autoscale(
            spark, policy=made["rules"], executors=(1, 2), interval=1.0, take_over=True
        ) as autoscaler:
            autoscaler.watch(keep)
            eventually("the rule acts", lambda: bool(reasons))
    finally:
        query.stop()
    assert "much fraud" in reasons[0]
    assert "open_orders" in reasons[0]


def test_a_job_is_simulated_as_it_was_recorded(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual: Callable[..., headgate.Autoscaler] = headgate.autoscale
    monkeypatch.setattr(headgate, "autoscale", lambda *given, **named: usual(*given, take_over=True, **named))
    one_executor(spark)
    spark.dataSource.register(LoadSource)
    events = spark.readStream.format("headgate-load").options(workload="constant:20", partitions="8").load()
    writer = events.mapInArrow(working(0.02), events.schema).writeStream.format("noop")
    query = writer.trigger(processingTime="2 seconds").start()
    ends = threading.Timer(30.0, query.stop)
    ends.start()
    made = run(PRINTED["docs/guides/simulate.md python 1"], spark=spark, query=query)
    ends.join()
    assert made["calibration"].times.rate_per_s > 20
    assert set(made["off"]) == set(COMPARED)
    assert made["by_hpa"].summary.late_records_pct < 5
    assert "latency_p95_s" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------- pipelines, services and Flink


def test_the_pipeline_of_the_guide_finds_its_lines(tmp_path: Path, cluster: LocalCluster, kafka: LocalKafka) -> None:
    """The guide's own file and function, for a quarter of the time."""
    (tmp_path / "steps.py").write_text(PRINTED["docs/guides/pipelines.md python 1"])
    printed = PRINTED["docs/guides/pipelines.md yaml 1"].replace("seconds: 2m", "seconds: 30s")
    reported = run_pipeline(tmp_path, printed, Spectator(), master=cluster.master_url, bootstrap=kafka.bootstrap)
    sent = make_payloads("grep").records(0, np.zeros(600, dtype=np.int64))
    found = sum(re.search(PATTERN, json.loads(record.value)["text"]) is not None for record in sent)
    assert reported.outcome.sent == 600
    assert 0 < found < 600
    assert (reported.outcome.end_to_end["distinct"], reported.outcome.end_to_end["doubled"]) == (found, 0)


@contextmanager
def two_services(folder: Path, postgres: PostgresServer) -> Iterator[tuple[list[str], list[Any], str]]:
    """Their addresses, their processes, and a token for agents."""
    store = postgres.new_database()
    printed = PRINTED["docs/guides/two-services.md yaml 1"].replace(
        "postgresql://headgate@db.example:5432/headgate", store
    )
    file = folder / "headgate.yaml"
    file.write_text(
        f"version: 1\n{printed}"
        "jobs:\n"
        "  live-tests:\n"
        "    {objective: latency p95 < 3s, policy: static, interval: 2s, operators: {enrich: {instances: [2, 2]}}}\n"
    )
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with serving(file, ports[0]) as first, serving(file, ports[1]) as second:
        eventually("one of them leads", lambda: any(is_leading(url) for url in urls))
        with closing(open_store(store)) as opened:
            yield urls, [first, second], opened.tokens.make("driver", {Scope.AGENT})


def is_leading(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.timeout(600)
def test_a_job_joins_two_services_follows_the_one_that_leads_and_decides_alone_when_both_are_gone(
    spark: SparkSession, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services want two executors, and its own policy more: so the size tells who decides."""
    agents: list[RunningAgent[Any]] = []
    sizes: list[int] = []
    usual: Callable[..., RunningAgent[Any]] = headgate.join

    def join(*given: Any, **named: Any) -> RunningAgent[Any]:
        agents.append(usual(*given, watcher=lambda seen: sizes.append(seen.instances["job"].planned), **named))
        return agents[-1]

    monkeypatch.setattr(headgate, "join", join)
    one_executor(spark)
    job = SteadyJob(
        tmp_path, "constant:70", 300.0, cost_s=0.05, trigger_interval_s=1.0, partitions=6, max_rows_per_batch=60
    )
    query = job.start(spark)
    try:
        with two_services(tmp_path, postgres) as (urls, processes, token):
            addresses = dict(zip(("http://one.example:8420", "http://two.example:8420"), urls, strict=True))
            printed = PRINTED["docs/guides/two-services.md python 1"]
            for name, url in addresses.items():
                printed = printed.replace(name, url)
            made = run(printed, spark=spark, token=token)
            eventually("the leader's size", lambda: sizes[-1:] == [2])
            leader = next(number for number, url in enumerate(urls) if is_leading(url))
            processes[leader].kill()
            eventually("the other leads", lambda: is_leading(urls[1 - leader]))
            eventually("the agent has found it", lambda: not agents[0].agent.is_away)
            agents[0].stop()
            run(PRINTED["docs/guides/two-services.md python 2"], spark=spark, token=token, services=made["services"])
            eventually("in again", lambda: len(agents) == 2 and not agents[1].agent.is_away)
            processes[1 - leader].kill()
            eventually("its own policy decides, a minute later", lambda: sizes[-1] > 2, 150.0)
    finally:
        for agent in agents:
            agent.stop()
        query.stop()


def test_taskmanagers_come_and_go(capsys: pytest.CaptureFixture[str]) -> None:
    run(PRINTED["docs/guides/flink-cluster.md python 1"])
    reported = capsys.readouterr().out
    assert re.match(r"http://127\.0\.0\.1:\d+ \[", reported)
    assert reported.count("free_slots=2") == 2
