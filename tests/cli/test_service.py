"""The commands that run a service, and those that ask one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headgate.local.machine import free_ports
from headgate.service.config import read_config
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from tests.cli.commands import headgate, refused
from tests.service.services import Served, served

FILE = """\
version: 1
jobs:
  clicks:
    objective: latency p95 < 10s
    policy: static
    settings: {instances: 2}
    interval: 200ms
    operators: {count: {instances: [1, 4]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    with served() as found:
        found.report(sample={"operator": "count", "at_age_s": 0.0, "arrived": 10, "done": 10, "backlog": 0})
        found.tick(10.0)
        yield found


@pytest.fixture(scope="module")
def url(here: Served) -> Iterator[str]:
    with ApiServer(here.app) as server:
        yield server.url


@pytest.fixture
def client_settings(url: str, here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SERVICE", url)
    monkeypatch.setenv("HEADGATE_TOKEN", here.tokens["operator"])


def printed(*arguments: str) -> str:
    result = headgate(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


# ----------------------------------------------------------------------------------------------------------- serving


def test_a_file_is_checked_and_its_schema_printed(file: Path) -> None:
    assert printed("serve", str(file), "--check").endswith("is valid: 1 job with 1 operator, at 127.0.0.1:8420.\n")
    assert json.loads(printed("serve", "--schema"))["title"] == "A service of Headgate"
    file.write_text(FILE.replace("static", "statik"))
    assert "headgate.yaml:5:13: policy: unknown policy 'statik', did you mean 'static'?" in refused("serve", str(file))
    assert refused("serve", str(file.parent / "none.yaml")).endswith("cannot be read: no such file or directory.")


@pytest.mark.parametrize("listen", ["8420", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(file: Path, listen: str) -> None:
    assert refused("serve", str(file), "--listen", listen).startswith(f"--listen {listen!r} is not usable")


def test_a_service_runs_until_it_is_stopped(file: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "headgate", "serve", str(file), "--listen", f"127.0.0.1:{port}"]
    secret = printed("token", "make", "drivers", "--scope", "agent", "--config", str(file)).strip()
    # Python would hold back what goes into a pipe.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert "looking after 1 job at http://127.0.0.1" in process.stdout.readline()
        report = {"version": 1, "agent": "a", "instances": {"planned": 1, "requested": 1, "ready": 1}}
        reports = f"http://127.0.0.1:{port}/v1/jobs/clicks/operators/count/reports"
        headers = {"Authorization": f"Bearer {secret}"}
        sizes = set()
        while 2 not in sizes:
            sizes.add(httpx.post(reports, json=report, headers=headers, timeout=30.0).json()["size"])
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").text == "ok"
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 0, rest
    assert secret not in rest


def test_a_store_that_cannot_be_opened_is_reported_and_a_taken_port_leaves_it_alone(file: Path) -> None:
    (nobody,) = free_ports(1)
    (file.parent / "text.db").write_text("not a database, though it is long enough to be one" * 100)
    for store, text in {
        f"sqlite:///{file.parent}/text.db": "text.db is not a store of Headgate: it is not a SQLite database.",
        f"sqlite:///{file.parent}/none/x.db": "there is no folder",
        f"postgresql://me:secret@127.0.0.1:{nobody}/jobs": "postgresql://me:***@127.0.0.1",
    }.items():
        file.write_text(f"store: {store}\n{FILE}")
        assert text in refused("serve", str(file), "--listen", f"127.0.0.1:{nobody}")
    file.write_text(f"store: sqlite:///{file.parent}/own.db\n{FILE}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "address already in use" in refused("serve", str(file), "--listen", address)
    assert not (file.parent / "own.db").exists()


# ------------------------------------------------------------------------------------------------------------ tokens


def test_tokens_are_made_listed_and_revoked(file: Path) -> None:
    at = ("--config", str(file))
    assert "there are no tokens" in printed("token", "list", *at)
    secret = printed("token", "make", "ana", "--scope", "operate", "--lasts", "30d", *at).strip()
    assert secret.startswith("hg_")
    listed = printed("token", "list", *at)
    assert "ana" in listed
    assert secret not in listed
    assert "there is a token 'ana' already" in refused("token", "make", "ana", "--scope", "read", *at)
    assert "unknown scope 'write'" in refused("token", "make", "bo", "--scope", "write", *at)
    assert "is not usable" in refused("token", "make", "a b", "--scope", "read", *at)
    printed("token", "revoke", "ana", *at)
    assert "unknown token 'ana'" in refused("token", "revoke", "ana", *at)
    store = open_store(read_config(file).store)
    assert [(entry.what, entry.why) for entry in store.audit.entries()] == [
        ("token ana", "made"),
        ("token ana", "revoked"),
    ]
    store.close()


# ------------------------------------------------------------------------------------------------------------ asking


@pytest.mark.usefixtures("client_settings")
def test_status_tells_how_jobs_and_operators_stand() -> None:
    assert "latency p95 < 10s" in printed("status")
    text = printed("status", "clicks")
    assert "clicks is partial: latency p95 < 10s, by reactive." in text
    assert "awaited" in text
    assert json.loads(printed("status", "--json"))[0]["name"] == "clicks"


@pytest.mark.usefixtures("client_settings")
def test_a_job_is_paused_and_resumed() -> None:
    assert printed("pause", "clicks", "--only", "in", "--for", "30m", "--why", "a sale") == (
        "scaling in of clicks is paused for 30m.\n"
    )
    assert "pause: direction in (operator: a sale, " in printed("status", "clicks")
    assert printed("resume", "clicks", "--why", "over") == "clicks is scaled again.\n"
    assert printed("resume", "clicks", "--why", "again") == "nothing of clicks was paused.\n"
    assert printed("release", "clicks", "count", "--why", "it hangs") == "another agent may join for count of clicks.\n"
    text = printed("history", "clicks")
    assert "operator changed pause: a sale" in text
    assert "agent-joined: count joined at size 1" in text
    assert len(json.loads(printed("history", "clicks", "--holds", "--json"))["decisions"]) >= 1


@pytest.mark.usefixtures("client_settings")
@pytest.mark.parametrize(
    ("arguments", "text", "undo"),
    [
        (("--policy", "static", "--set", "instances=2"), "policy of clicks is changed.", "policy"),
        (("--guard", "max_out=1"), "policy of clicks is changed.", "policy"),
        (("--objective", "latency p99 < 2s"), "objective of clicks is changed.", "objective"),
        (("--bounds", "count=1..6"), "bounds of count of clicks is changed.", "bounds:count"),
        (("--size", "count=2", "--for", "1h"), "size of count of clicks is changed.", "size:count"),
        (("--mode", "recommend"), "mode of clicks is changed.", "mode"),
        (
            ("--period", "night", "--forbid", "scale in", "--during", "* 22-5 * * *"),
            "period of night of clicks is changed.",
            "period:night",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_one_thing_is_set_and_taken_back(arguments: tuple[str, ...], text: str, undo: str) -> None:
    assert printed("set", "clicks", *arguments, "--why", "a test").strip() == text
    assert "as the service's file says" in printed("set", "clicks", "--revert", undo, "--why", "tested")


@pytest.mark.usefixtures("client_settings")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "nothing is to be set; one of --policy"),
        (("--policy", "static", "--mode", "act"), "--policy and --mode is to be set"),
        (("--bounds", "count=4"), "--bounds 'count=4' is not understood"),
        (("--size", "count=4"), "--size count=4 needs --for"),
        (("--size", "count=four", "--for", "1h"), "--size 'count=four' is not understood"),
        (("--policy", "statik"), "unknown policy 'statik', did you mean 'static'?"),
        (("--rules", "none.yaml"), "rule file none.yaml cannot be read"),
        (("--revert", "mood"), "kind: input should be"),
    ],
)
def test_what_cannot_be_set_is_refused(arguments: tuple[str, ...], text: str) -> None:
    assert text in refused("set", "clicks", *arguments, "--why", "a test")


@pytest.mark.usefixtures("client_settings")
def test_requests_that_cannot_be_made_are_refused(tmp_path: Path, url: str) -> None:
    assert "did you mean 'clicks'" in refused("status", "clicsk")
    assert "--only 'up' is not allowed" in refused("pause", "clicks", "--only", "up", "--why", "x")
    (tmp_path / "token").write_text("wrong\n")
    assert "a valid token is needed" in refused("status", "--token-file", str(tmp_path / "token"))
    assert "cannot be read" in refused("status", "--token-file", str(tmp_path / "none"))
    away = headgate("status", "--service", "http://127.0.0.1:9")
    assert (away.exit_code, "does not answer" in away.stderr) == (1, True)
