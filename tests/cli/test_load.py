"""headgate load: what it refuses before anything is sent; records are sent in tests/live/test_load.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.local.machine import free_ports
from tests.cli.commands import refused

LOAD = ("load", "constant:10", "--seconds", "1s")


@pytest.fixture(autouse=True)
def _none_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*LOAD, "--to", "orders"), "--to 'orders' is not understood; write kafka:TOPIC."),
        ((*LOAD, "--to", "kafka:"), "--to 'kafka:' is not understood; write kafka:TOPIC."),
        (
            (*LOAD, "--to", "embedded", "--app", "grep"),
            "--to embedded is not possible: an embedded source lives in the job that reads it; run one with: "
            "headgate app run NAME --source embedded",
        ),
        (
            (*LOAD, "--to", "kafka:orders"),
            "no broker is up; start one with: headgate kafka up, or name yours with --bootstrap.",
        ),
        ((*LOAD, "--to", "kafka:orders", "--bootstrap", "here"), "the bootstrap address 'here' is not understood;"),
        ((*LOAD, "--to", "kafka:orders", "--app", "numbred"), "unknown application 'numbred', did you mean 'numbered'"),
        (
            (*LOAD, "--to", "kafka:orders", "--speed", "fast"),
            "--speed 'fast' is not understood; 1 to 1000 are allowed, and max.",
        ),
        (
            (*LOAD, "--to", "kafka:orders", "--app", "grep", "--template", "x"),
            "--app and --template do not go together; one of them says what is sent.",
        ),
        (
            (*LOAD, "--to", "kafka:orders", "--template", "${colour}"),
            "placeholder ${colour} is not understood; there are",
        ),
        ((*LOAD, "--to", "kafka:orders", "--records", "none.jsonl"), "none.jsonl cannot be read: no such file"),
        ((*LOAD, "--to", "kafka:orders", "--key-field", "user"), "--key-field 'user' goes with --records only."),
        ((*LOAD, "--to", "kafka:orders", "--speed", "0.5"), "--speed 0.5 is not allowed; 1 to 1000 are, and max."),
        ((*LOAD, "--to", "kafka:orders", "--speed", "1001"), "--speed 1001 is not allowed; 1 to 1000 are, and max."),
        ((*LOAD, "--to", "kafka:orders", "--keys", "0"), "invalid value '0' for '--keys'"),
        ((*LOAD, "--to", "kafka:orders", "--skew", "-1"), "invalid value '-1' for '--skew'"),
        ((*LOAD, "--to", "kafka:orders", "--skew", "nan"), "invalid value 'nan' for '--skew'"),
        ((*LOAD, "--to", "kafka:orders", "--seed", "-1"), "invalid value '-1' for '--seed'"),
        (
            (*LOAD, "--to", "kafka:orders", "--event-start", "noon", "--bootstrap", "127.0.0.1:1"),
            "--event-start 'noon' is not understood; write for example 2024-05-01T12:00.",
        ),
        ((*LOAD, "--to", "kafka:orders", "--json", "/no/such/folder/file"), "/no/such/folder/file cannot be written"),
        (
            ("load", "constant:10", "--to", "kafka:orders"),
            "workload constant:10 has no end; give its length as seconds, such as 10m.",
        ),
        (("load", "constant:10", "--seconds", "0s", "--to", "kafka:orders"), "--seconds 0s is not allowed"),
        (("load", "constnt:10", "--to", "kafka:orders"), "unknown workload 'constnt', did you mean 'constant'?"),
    ],
)
def test_a_wrong_use_is_reported_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert refused(*arguments).startswith(message)


def test_a_broker_that_is_not_there_is_reported_in_one_sentence() -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    message = refused(*LOAD, "--to", "kafka:orders", "--bootstrap", bootstrap)
    assert message == f"no Kafka broker can be reached ({bootstrap}: connection refused)."
