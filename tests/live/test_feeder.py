"""A load into a topic that was cut short goes on: what is missing is sent, nothing is sent twice."""

from __future__ import annotations

import json
import time
import uuid

import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.running.feeder import Sent, TopicFeeder, numbers_sent
from headgate.apps.running.folder import Beginning
from headgate.core.errors import InputError
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink, topic_values
from headgate.workloads.load import Load
from headgate.workloads.payloads import Record
from headgate.workloads.schedule import event_times_ms
from tests.live.support import eventually

LOAD = Load("constant:200", "grep", seconds=2.0)
MISSING = (10, 11, 57)
STARTED_S = time.time()


@pytest.fixture
def topic(kafka: LocalKafka) -> str:
    """Has the first hundred records but three, and one that is malformed."""
    name = f"feeder-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=3)
    records = LOAD.make_payloads().records(0, event_times_ms(LOAD.schedule.due_s(0, 100), round(1000 * STARTED_S)))
    sent = [record for number, record in enumerate(records) if number not in MISSING]
    sink = TopicSink(kafka.bootstrap, name)
    assert sink.send([*sent, Record(None, b"not JSON")]) == 98
    sink.flush()
    return name


@pytest.mark.soak
def test_what_a_killed_load_left_out_is_sent_and_the_rest_follows(kafka: LocalKafka, topic: str) -> None:
    assert numbers_sent(kafka.bootstrap, topic, 400) == Sent(100, MISSING)
    feeder = TopicFeeder(LOAD, kafka.bootstrap, topic, Beginning(STARTED_S, round(1000 * STARTED_S)))
    feeder.start()
    eventually("the end of the load", lambda: feeder.is_done, 30.0)
    standing = feeder.standing
    assert standing is not None
    assert (standing.due, standing.sent, standing.answers.acknowledged) == (400, 400, 400)
    found = [value for value in topic_values(kafka.bootstrap, topic) if value != b"not JSON"]
    assert sorted(json.loads(value)["number"] for value in found) == list(range(400))
    all_of_it = LOAD.make_payloads().records(0, event_times_ms(LOAD.schedule.due_s(0, 400), round(1000 * STARTED_S)))
    assert sorted(found) == sorted(record.value for record in all_of_it)


def test_a_topic_with_records_of_another_load_is_refused(kafka: LocalKafka, topic: str) -> None:
    with pytest.raises(InputError, match="holds records of another load"):
        numbers_sent(kafka.bootstrap, topic, 50)
