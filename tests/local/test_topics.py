"""Topics, where there is no broker or no package to ask it with; the rest is in tests/live/test_kafka.py."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.machine import free_ports
from headgate.local.topics import create_topic, delete_topic, topics

QUESTIONS: list[Callable[[str], object]] = [
    topics,
    lambda bootstrap: create_topic(bootstrap, "orders"),
    lambda bootstrap: delete_topic(bootstrap, "orders"),
]


@pytest.mark.parametrize("ask", QUESTIONS, ids=["list", "create", "delete"])
def test_a_broker_that_is_not_there_is_reported(ask: Callable[[str], object]) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(EngineError, match=f"no Kafka broker can be reached .{bootstrap}: connection refused"):
        ask(bootstrap)


@pytest.mark.parametrize("ask", QUESTIONS, ids=["list", "create", "delete"])
def test_without_its_package_it_is_reported_what_to_install(
    ask: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InputError, match=r"pip install 'headgate\[kafka\]'"):
        ask("127.0.0.1:1")


def test_a_topic_has_at_least_one_partition() -> None:
    with pytest.raises(InputError, match="a topic with 0 partitions is not possible; at least 1 is needed"):
        create_topic("127.0.0.1:1", "orders", partitions=0)
