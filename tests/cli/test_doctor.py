"""headgate doctor: plain words, JSON, and exit codes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from headgate.local.machine import free_ports
from tests.cli.commands import headgate, refused


def test_what_is_well_is_said_and_ends_with_0() -> None:
    port = str(free_ports(1)[0])
    result = headgate("doctor", "--only", "clock", "--only", "ports", "--port", port)
    assert result.exit_code == 0
    assert f"port {port} of 127.0.0.1 is free." in result.stdout
    assert result.stdout.endswith("nothing is wrong.\n")


def test_what_will_not_work_is_said_with_a_remedy_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = headgate("doctor", "--only", "java")
    assert result.exit_code == 1
    assert "no java was found in JAVA_HOME" in result.stdout
    assert "→ install Java 17 or newer" in result.stdout
    assert result.stdout.endswith("1 thing will not work.\n")


def test_the_json_has_every_finding_and_a_note_is_no_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = headgate("doctor", "--only", "ports", "--port", str(taken.getsockname()[1]), "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["version"] == 1
    (finding,) = data["findings"]
    assert set(finding) == {"check", "status", "told", "remedy"}
    assert (finding["check"], finding["status"]) == ("ports", "warning")


def test_the_file_of_a_service_is_read_and_its_key_checked(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "key.pem").chmod(0o644)
    file = tmp_path / "service.yaml"
    text = (
        "version: 1\ntls: {certificate: cert.pem, key: key.pem}\njobs:\n  clicks:\n    objective: latency p95 < 10s\n"
    )
    file.write_text(f"{text}    operators: {{count: }}\n", encoding="utf-8")
    result = headgate("doctor", "--only", "config", "--only", "permissions", "--config", str(file))
    assert result.exit_code == 0, result.stdout
    assert "describes 1 job, to be looked after at 127.0.0.1:8420." in result.stdout
    assert "holds a secret, and others may read it (0644)." in result.stdout
    file.write_text("version: 1\n", encoding="utf-8")
    assert headgate("doctor", "--only", "config", "--config", str(file)).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "jawa"), "unknown check 'jawa', did you mean 'java'?"),
        (("--port", "70000"), "--port 70000 is not allowed; it must lie between 1 and 65535."),
        (("--service", "nowhere"), "service 'nowhere' is not usable"),
    ],
)
def test_wrong_input_is_reported_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("doctor", *arguments)
