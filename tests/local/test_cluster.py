"""The local cluster: it starts for real, and nothing of it is left, whatever ends its parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import psutil
import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local import cluster
from headgate.local.cluster import LocalCluster
from tests.live.support import eventually

STARTER = """
import sys, time
from headgate.local.cluster import LocalCluster
with LocalCluster(slots=1) as running:
    print(running.master_url, running.directory, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_cluster_does_not_outlive_its_starter(starter: subprocess.Popen[str], number: signal.Signals) -> None:
    assert starter.stdout is not None
    master_url, directory = starter.stdout.readline().split()
    processes = psutil.Process(starter.pid).children(recursive=True)
    assert any("org.apache.spark.deploy.worker.Worker" in process.cmdline() for process in processes)
    starter.send_signal(number)
    eventually("all processes to be gone", lambda: not any(_is_alive(process) for process in processes), 30.0)
    eventually("its folder to be gone", lambda: not Path(directory).exists(), 10.0)
    assert not _answers(master_url)


@pytest.mark.live
def test_a_detached_cluster_is_found_and_stopped_by_later_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}

    def headgate(*arguments: str) -> dict[str, object]:
        command = [sys.executable, "-m", "headgate", "cluster", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    assert headgate("status") == {"up": False}
    started = headgate("up", "--slots", "1")
    try:
        assert headgate("status") == started
        assert _answers(str(started["master_url"]))
        with pytest.raises(InputError, match="a cluster is up already"):
            cluster.up(1)
    finally:
        assert headgate("down") == {"up": False, "stopped": True}
    assert headgate("down") == {"up": False, "stopped": False}
    assert not _answers(str(started["master_url"]))
    assert not psutil.pid_exists(warden := int(str(started["warden_pid"]))) or not _is_alive(psutil.Process(warden))


def test_a_state_file_of_a_cluster_that_is_gone_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = cluster.state_file()
    path.parent.mkdir(parents=True)
    # This very process is alive, but it is no warden.
    state = cluster.ClusterState(os.getpid(), "spark://127.0.0.1:1", "http://127.0.0.1:2", str(tmp_path / "gone"))
    path.write_text(json.dumps(vars(state)))
    assert cluster.status() is None
    assert not path.exists()


def test_a_state_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = cluster.state_file()
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(InputError, match=r"cannot be read.*delete it"):
        cluster.status()


def test_a_cluster_needs_a_slot() -> None:
    with pytest.raises(InputError, match="0 slots"):
        LocalCluster(slots=0)


def test_a_cluster_that_does_not_run_has_no_address() -> None:
    with pytest.raises(EngineError, match="not running"):
        _ = LocalCluster().master_url


def test_a_missing_java_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="Spark needs Java 17 or newer"):
        LocalCluster().start()


def _is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def _answers(master_url: str) -> bool:
    address = urlparse(master_url)
    with socket.socket() as client:
        return client.connect_ex((address.hostname, address.port)) == 0
