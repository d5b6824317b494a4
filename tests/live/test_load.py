"""Loads into a real topic: every record arrives once and in time, and what does not is counted and said.

And the same records from the embedded source, in a real query.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from headgate.apps.record_source import RecordSource
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.workloads.load import Load
from headgate.workloads.payloads import Record
from headgate.workloads.schedule import event_times_ms
from tests.live.records import messages
from tests.live.support import broker_process, eventually, suspended

LATE_MS = 500
"""Late is a record that comes to the producer later than this: seconds of the machine's are not the load's fault."""


@pytest.fixture
def topic(kafka: LocalKafka) -> str:
    """A topic of four partitions that no other test uses."""
    name = f"load-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=4)
    return name


def load(kafka: LocalKafka, topic: str, *arguments: str) -> subprocess.Popen[str]:
    where = ("--to", f"kafka:{topic}", "--bootstrap", kafka.bootstrap, "--json")
    command = [sys.executable, "-m", "headgate", "load", *arguments, *where]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_every_record_arrives_once_and_in_time(kafka: LocalKafka, topic: str) -> None:
    spike = "spike:base=1000,peak=9000,at=2s,width=1s"
    summary = result(load(kafka, topic, spike, "--seconds", "5s", "--skew", "1"))
    counted = {name: summary[name] for name in ("due", "sent", "acknowledged", "failed", "unanswered")}
    assert counted == {"due": 13_000, "sent": 13_000, "acknowledged": 13_000, "failed": 0, "unanswered": 0}
    found = messages(kafka, topic)
    values = [json.loads(message.value() or b"") for message in found]
    assert sorted(value["number"] for value in values) == list(range(13_000))
    # At speed 1 the due time is the wall clock's, and the message's own time is when the producer got it.
    late_ms = np.array([message.timestamp()[1] for message in found]) - [value["at_ms"] for value in values]
    assert late_ms.min() >= -1
    assert np.percentile(late_ms, 99) < LATE_MS
    assert summary["schedule_error"]["max_s"] >= summary["schedule_error"]["p99_s"] > 0
    partitions = defaultdict(set)
    for message, value in zip(found, values, strict=True):
        assert message.key() == value["key"].encode()
        partitions[value["key"]].add(message.partition())
    assert all(len(held_by) == 1 for held_by in partitions.values()), "a key stays in its partition"


def test_as_fast_as_accepted_nothing_is_lost_or_doubled(kafka: LocalKafka, topic: str) -> None:
    """More than the producer's buffer holds."""
    arguments = ("constant:100", "--seconds", "1h", "--speed", "max", "--event-start", "2024-05-01")
    summary = result(load(kafka, topic, *arguments))
    assert (summary["acknowledged"], summary["schedule_error"]) == (360_000, None)
    values = [json.loads(message.value() or b"") for message in messages(kafka, topic)]
    assert sorted(value["number"] for value in values) == list(range(360_000))
    assert all(value["at_ms"] == 1_714_521_600_005 + 10 * value["number"] for value in values)


def test_ctrl_c_tells_exactly_what_was_sent(kafka: LocalKafka, topic: str) -> None:
    process = load(kafka, topic, "constant:2000", "--seconds", "10m")
    eventually("the first records", lambda: len(messages(kafka, topic)) > 1000)
    process.send_signal(signal.SIGINT)
    summary = result(process, code=130)
    assert summary["interrupted"]
    assert summary["sent"] == summary["acknowledged"] <= summary["due"] < 1_200_000
    numbers = sorted(json.loads(message.value() or b"")["number"] for message in messages(kafka, topic))
    assert numbers == list(range(summary["sent"]))


def test_an_unknown_topic_is_reported_in_a_sentence(kafka: LocalKafka, topic: str) -> None:
    process = load(kafka, f"{topic}-not", "constant:1", "--seconds", "1s")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith(f"headgate: there is no topic '{topic}-not' at {kafka.bootstrap} (there are: ")
    assert errors.endswith(f"make it with: headgate kafka topic {topic}-not.\n")
    assert f"{topic}-not" not in kafka.topics()


def test_a_record_that_is_refused_is_counted(kafka: LocalKafka, topic: str) -> None:
    sink = TopicSink(kafka.bootstrap, topic)
    small = Record(b"k", b"small")
    assert sink.send([small, Record(b"k", b"x" * 2_000_000), small]) == 3
    sink.flush()
    answers = sink.answers()
    assert (answers.acknowledged, answers.failed) == (2, 1)
    assert list(answers.reasons) == ["Message size too large (MSG_SIZE_TOO_LARGE)"]
    assert len(messages(kafka, topic)) == 2


def test_records_of_a_broker_that_does_not_answer_are_counted(kafka: LocalKafka, topic: str) -> None:
    sink = TopicSink(kafka.bootstrap, topic, answer_within_s=2.0)
    records = [Record(b"k%d" % number, b"%d" % number) for number in range(100)]
    sink.send(records)
    sink.flush()
    with suspended(broker_process()):
        sink.send(records)
        sink.flush()
    answers = sink.answers()
    assert (answers.acknowledged, answers.failed) == (100, 100)
    assert list(answers.reasons) == ["Message timed out (_MSG_TIMED_OUT)"]


def test_an_embedded_source_has_the_same_records_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    load = Load("ramp:from=0,to=1000,over=4s", seconds=4.0, skew=1.0)
    started_s = time.time()
    spark.dataSource.register(RecordSource)

    def start() -> Any:
        options = load.options() | {"started_s": str(started_s), "partitions": "2", "max_rows_per_batch": "400"}
        rows = spark.readStream.format(RecordSource.name()).options(**options).load()
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return sink.option("path", str(tmp_path / "output")).start()

    query = start()
    eventually("a first batch", lambda: bool(query.lastProgress and query.lastProgress["numInputRows"]))
    query.stop()
    query = start()
    eventually("the end of the load", lambda: time.time() > started_s + 5.0)
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "output")).collect()
    at_ms = event_times_ms(load.schedule.due_s(0, 2000), round(started_s * 1000))
    expected = load.make_payloads().records(0, at_ms)
    assert Counter((bytes(row.key), bytes(row.value)) for row in found) == Counter(expected)
