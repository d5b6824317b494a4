"""What happens to an application that runs when something fails: it says so, and goes on or stops without a loss."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # its stubs do not name it

from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.local.spark.cluster import LocalCluster
from headgate.workloads.load import Load
from headgate.workloads.payloads import Record
from tests.live.app_runs import AppRun
from tests.live.support import broker_process, eventually

MALFORMED = (b"not JSON", b'{"number": 1}', b'{"number": "seven", "at_ms": 1, "text": "x"}')


@pytest.fixture
def topic(kafka: LocalKafka) -> str:
    name = f"faults-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=2)
    return name


def send(kafka: LocalKafka, topic: str, records: list[Record]) -> None:
    sink = TopicSink(kafka.bootstrap, topic)
    done = 0
    while done < len(records):
        done += sink.send(records[done:])
    sink.flush()
    assert sink.answers().acknowledged == len(records)


def sentences(first: int, count: int) -> list[Record]:
    load = Load("constant:100", "grep", seconds=1000.0)
    due_s = load.schedule.due_s(first, count)
    return list(load.make_payloads().records(first, (1000 * (1_700_000_000 + due_s)).astype("int64")))


def reading(kafka: LocalKafka, topic: str, cluster: LocalCluster, folder: Path, seconds: str) -> AppRun:
    """An application that reads what this test sends."""
    where = ("--no-load", "--topic", topic, "--bootstrap", kafka.bootstrap)
    return AppRun.on(cluster, folder, "grep", *where, "--seconds", seconds, "--executors", "1..1", "--check")


@pytest.mark.soak
def test_malformed_records_are_retained_aside_and_partitions_that_are_made_meanwhile_are_read(
    cluster: LocalCluster, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    send(kafka, topic, [*sentences(0, 500), *(Record(None, each) for each in MALFORMED)])
    run = reading(kafka, topic, cluster, tmp_path / "run", "16s")
    with run.started() as process:
        eventually("a batch", lambda: run.batches > 0)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result()
        eventually("six partitions", lambda: kafka.topics()[topic] == 6)
        send(kafka, topic, sentences(500, 500))
        reported = run.ended(process)
    assert reported["records"] == reported["records"] | {"available": 1003, "read": 1003, "malformed": 3, "late": 0}
    assert reported["check"]["is_exact"], reported["check"]
    aside = [line for file in (tmp_path / "run/malformed").rglob("*.json") for line in file.read_text().splitlines()]
    assert len(aside) == len(MALFORMED)
    assert '{"malformed":"not JSON"}' in aside


def test_an_unknown_topic_is_reported_before_anything_is_started(
    cluster: LocalCluster, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    run = reading(kafka, f"{topic}-not", cluster, tmp_path / "run", "10s")
    with run.started() as process:
        message, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message.startswith(f"headgate: there is no topic '{topic}-not' at {kafka.bootstrap} (there are: ")
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.soak
def test_a_topic_that_is_deleted_ends_the_job_in_a_sentence(
    cluster: LocalCluster, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    send(kafka, topic, sentences(0, 500))
    run = reading(kafka, topic, cluster, tmp_path / "run", "4m")
    with run.started() as process:
        eventually("a batch", lambda: run.batches > 0)
        kafka.delete_topic(topic)
        message, _ = process.communicate(timeout=200)
    assert process.returncode == 1, message
    reported = message.splitlines()[-1]
    assert reported.startswith("headgate: the query was stopped for good: "), message
    assert f"the same command with --folder {tmp_path / 'run'} continues the run." in reported


@pytest.mark.soak
def test_a_broker_that_is_away_for_minutes_is_waited_for(
    cluster: LocalCluster, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    """Longer than Kafka's clients are patient (60 s): whether the query waits or is started again, it reads on."""
    send(kafka, topic, sentences(0, 500))
    run = reading(kafka, topic, cluster, tmp_path / "run", "140s")
    broker = broker_process()
    with run.started() as process:
        eventually("a batch", lambda: run.batches > 0)
        broker.send_signal(signal.SIGSTOP)
        try:
            time.sleep(90.0)
        finally:
            broker.send_signal(signal.SIGCONT)
        send(kafka, topic, sentences(500, 500))
        message, _ = process.communicate(timeout=240)
    assert process.returncode == 0, message
    assert "1,000 read" in message
    assert "none missing, doubled or wrong" in message


@pytest.mark.soak
def test_a_full_disk_of_the_checkpoint_is_reported_and_the_job_continues_when_there_is_room(
    cluster: LocalCluster, kafka: LocalKafka, topic: str, tmp_path: Path
) -> None:
    send(kafka, topic, sentences(0, 500))
    with small_disk(tmp_path / "disk", megabytes=64) as disk:
        run = reading(kafka, topic, cluster, tmp_path / "run", "60s")
        run = AppRun(
            run.application, run.folder, run.master, (*run.arguments, "--checkpoint", str(disk / "checkpoint"))
        )
        with run.started() as process:
            eventually("a batch", (disk / "checkpoint/commits/0").exists)
            filler = disk / "filler"
            fill(filler)
            send(kafka, topic, sentences(500, 500))
            time.sleep(15.0)
            filler.unlink()
            reported, message = run.ended_and_said(process)
    assert "no space left on device" in message.lower() or "no-room" in message, message
    assert reported["records"] == reported["records"] | {"available": 1000, "read": 1000}
    assert reported["check"]["is_exact"], reported["check"]


@contextmanager
def small_disk(place: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system in memory that is soon full; who may not mount one skips the test."""
    place.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(file: Path) -> None:
    """Take all the room that is left."""
    with file.open("wb", buffering=0) as sink:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    sink.write(b"\0" * size)
            except OSError:
                continue
