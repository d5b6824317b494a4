"""headgate kafka: what it refuses and what it prints; a broker is started in tests/local/test_kafka.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headgate.core.errors import EngineError
from headgate.local.connector import Connector
from tests.cli.commands import headgate, refused

JARS = (Path("/cache/a.jar"), Path("/cache/b.jar"))


@pytest.fixture(autouse=True)
def _none_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--port", "many"], "invalid value 'many' for '--port'"),
        (["up", "--port", "65536"], "invalid value '65536' for '--port'"),
        (
            ["status", "--bootstrap", "localhost"],
            "the bootstrap address 'localhost' is not understood; write HOST:PORT, as 127.0.0.1:9092.",
        ),
        (["topic", "orders"], "no broker is up; start one with: headgate kafka up, or name yours with --bootstrap."),
        (
            ["topic", "orders", "--partitions", "0", "--bootstrap", "127.0.0.1:1"],
            "a topic with 0 partitions is not possible; at least 1 is needed.",
        ),
        (["connector", "--json", "/no/such/folder/file"], "/no/such/folder/file cannot be written"),
    ],
)
def test_a_wrong_use_is_reported_in_one_sentence(arguments: list[str], message: str) -> None:
    assert refused("kafka", *arguments).startswith(message)


def test_status_says_how_to_start_one() -> None:
    result = headgate("kafka", "status")
    assert (result.exit_code, result.stdout) == (0, "no broker is up; start one with: headgate kafka up\n")
    assert headgate("kafka", "down").stdout == "no broker was up\n"


def test_status_of_a_broker_needs_the_kafka_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert refused("kafka", "status", "--bootstrap", "127.0.0.1:1") == (
        "a Kafka broker needs confluent-kafka, which is not installed: pip install 'headgate[kafka]'."
    )


def test_an_unreachable_named_broker_is_reported_as_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(bootstrap: str) -> str:
        raise EngineError(f"no Kafka broker can be reached ({bootstrap}: connection refused).")

    monkeypatch.setattr("headgate.local.kafka.release", unreachable)
    result = headgate("kafka", "status", "--bootstrap", "127.0.0.1:1", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "up": False,
        "bootstrap": "127.0.0.1:1",
        "reason": "no Kafka broker can be reached (127.0.0.1:1: connection refused).",
    }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Connector("4.2.0", "4.2.0", JARS, None), ""),
        (
            Connector("4.2.0", "4.3.0", JARS, "there is no connector 4.3.0."),
            "taking connector 4.2.0 for Spark 4.3.0: there is no connector 4.3.0.\n",
        ),
    ],
    ids=["its own", "another"],
)
def test_connector_prints_the_value_of_a_setting_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, found: Connector, message: str
) -> None:
    monkeypatch.setattr("headgate.local.connector.find_connector", lambda: found)
    result = headgate("kafka", "connector")
    assert (result.stdout, result.stderr) == ("/cache/a.jar,/cache/b.jar\n", message)
    assert json.loads(headgate("kafka", "connector", "--json").stdout) == {
        "spark": found.spark_version,
        "connector": "4.2.0",
        "note": found.note,
        "jars": ["/cache/a.jar", "/cache/b.jar"],
    }
