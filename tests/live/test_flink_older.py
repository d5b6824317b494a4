"""A job on Flink 1.20 is scaled like one on the Flink that the extra brings: the same checks, on another cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import flink_response
from headgate.local.kafka import LocalKafka
from tests.live.older_flink import VERSION, OlderTopicRecords, older_home
from tests.live.test_flink_engine import check_contract, check_growth, slow_job

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def older_flink() -> Iterator[LocalFlink]:
    with LocalFlink(taskmanagers=2, slots=2, home=older_home()) as running:
        assert flink_response(running.url, "config")["flink-version"] == VERSION
        yield running


@pytest.fixture
def job(request: pytest.FixtureRequest, older_flink: LocalFlink, kafka: LocalKafka) -> Iterator[str]:
    records = OlderTopicRecords(kafka.bootstrap, f"older_{request.function.__name__}")
    with slow_job(older_flink, kafka, records, older_home()) as name:
        yield name


def test_a_policy_grows_the_slow_middle_and_nothing_else(older_flink: LocalFlink, job: str) -> None:
    check_growth(older_flink, job)


def test_it_keeps_the_engine_contract(older_flink: LocalFlink, job: str) -> None:
    check_contract(older_flink, job)
