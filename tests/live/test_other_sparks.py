"""Sparks from 3.5 on scale a Kafka job, and lose and double nothing; ``docs/guides/support.md`` is made from it."""

from __future__ import annotations

import threading

import pytest

from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.workloads.payloads import Record
from tests.live.other_spark import RATE_PER_S, RECORDS, Job, run_there
from tests.live.proved_runs import note_run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

VERSIONS = ("3.5.9", "4.0.5", "4.1.4", "4.2.0", "4.2.1", "4.3.0")
WAITING = 1200
"""Records that are there when the job starts."""


def feed(bootstrap: str, topic: str, stop: threading.Event) -> None:
    sink = TopicSink(bootstrap, topic)
    sent = 0
    while sent < RECORDS:
        more = WAITING if not sent else RATE_PER_S
        values = [Record(None, str(number).encode()) for number in range(sent, min(RECORDS, sent + more))]
        sent += sink.send(values)
        if stop.wait(1.0):
            break
    sink.flush()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kafka_job_grows_shrinks_and_counts_each_record_once(version: str, kafka: LocalKafka) -> None:
    topic = f"other-{version}"
    kafka.create_topic(topic, partitions=4)
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=[kafka.bootstrap, topic, stop], daemon=True)
    feeder.start()
    try:
        found = run_there(version, Job(kafka.bootstrap, topic))
    finally:
        stop.set()
        feeder.join()
    assert found["version"] == version
    assert found["failure"] == ""
    assert (found["rows"], found["distinct"]) == (RECORDS, RECORDS)
    assert found["most_ready"] == 3
    assert found["drained_to"] == 1
    assert found["failed_readings"] == 0
    assert found["arrived"] == RECORDS
    row = {
        "spark": version,
        "cluster": "standalone, client mode",
        "source": "Kafka",
        "grew to": found["most_ready"],
        "drained to": found["drained_to"],
        "sent": RECORDS,
        "written": found["rows"],
        "twice": int(str(found["rows"])) - int(str(found["distinct"])),
        "python": found["python"],
    }
    note_run("support", ("spark",), row)
