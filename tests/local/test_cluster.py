"""The local cluster: it starts for real, and nothing of it is left, whatever ends its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse

import psutil
import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.spark import cluster
from headgate.local.spark.cluster import LocalCluster
from tests.live.support import eventually
from tests.local.processes import all_gone, is_alive, listens, starter

STARTER = """
import sys, time
from headgate.local.spark.cluster import LocalCluster
with LocalCluster(slots=1) as running:
    print(running.master_url, running.directory, flush=True)
    time.sleep(600)
"""


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_cluster_does_not_outlive_its_starter(number: signal.Signals) -> None:
    with starter(STARTER) as process:
        assert process.stdout is not None
        master_url, directory = process.stdout.readline().split()
        processes = psutil.Process(process.pid).children(recursive=True)
        assert any("org.apache.spark.deploy.worker.Worker" in process.cmdline() for process in processes)
        process.send_signal(number)
        eventually("all processes to be gone", lambda: all_gone(processes), 30.0)
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
    assert not psutil.pid_exists(warden := int(str(started["warden_pid"]))) or not is_alive(psutil.Process(warden))


def test_a_cluster_needs_a_slot() -> None:
    with pytest.raises(InputError, match="0 slots"):
        LocalCluster(slots=0)


def test_a_cluster_that_does_not_run_has_no_address() -> None:
    with pytest.raises(EngineError, match="not running"):
        _ = LocalCluster().master_url


def test_a_missing_java_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InputError, match="Spark needs Java 17 or newer"):
        LocalCluster().start()
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def _answers(master_url: str) -> bool:
    address = urlparse(master_url)
    return listens(address.hostname, address.port)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo $*; echo the queue is unknown >&2; exit 3", "ended with exit code 3: the queue is unknown"),
        ("exit 1", "ended with exit code 1: it printed nothing"),
    ],
)
def test_a_program_that_is_not_taken_is_reported_with_the_last_line(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(cluster, "spark_home", lambda: str(tmp_path))
    with pytest.raises(EngineError, match=message):
        cluster.submit("yarn", Path("job.py"), ["7"], "job", {"spark.x": "y"}, {})
