"""The local broker: it starts for real, and nothing of it is left, whatever ends its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.kafka import LocalKafka
from headgate.local.topics import addresses
from tests.live.support import eventually
from tests.local.processes import all_gone, listens, starter

STARTER = """
import time
from headgate.local.kafka import LocalKafka
with LocalKafka() as running:
    print(running.bootstrap, running.directory, flush=True)
    time.sleep(600)
"""


def broker_of(pid: int) -> psutil.Process:
    """The broker among the descendants of a process."""
    (found,) = [child for child in psutil.Process(pid).children(recursive=True) if "kafka.Kafka" in child.cmdline()]
    return found


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_broker_does_not_outlive_its_starter(number: signal.Signals) -> None:
    with starter(STARTER) as process:
        assert process.stdout is not None
        bootstrap, directory = process.stdout.readline().split()
        processes = psutil.Process(process.pid).children(recursive=True)
        assert broker_of(process.pid) in processes
        assert listens(*addresses(bootstrap)[0])
        process.send_signal(number)
        eventually("all processes to be gone", lambda: all_gone(processes), 30.0)
        eventually("its folder to be gone", lambda: not Path(directory).exists(), 10.0)
        assert not listens(*addresses(bootstrap)[0])


@pytest.mark.live
def test_a_broker_that_is_to_be_detached_does_not_outlive_a_starter_killed_before(tmp_path: Path) -> None:
    """Until it is written down where it can be found, it belongs to its starter."""
    program = """
        import time
        from headgate.local.kafka import LocalKafka
        print(LocalKafka().start(detached=True).directory, flush=True)
        time.sleep(600)
    """
    with starter(textwrap.dedent(program)) as process:
        assert process.stdout is not None
        directory = process.stdout.readline().strip()
        processes = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        eventually("all processes to be gone", lambda: all_gone(processes), 30.0)
        eventually("its folder to be gone", lambda: not Path(directory).exists(), 10.0)


@pytest.mark.live
def test_a_detached_broker_is_found_missed_and_stopped_by_later_commands(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headgate", "kafka", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def reported(*arguments: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(headgate(*arguments, "--json").stdout)
        return answer

    assert reported("status") == {
        "up": False,
        "bootstrap": None,
        "reason": "no broker is up; start one with: headgate kafka up",
    }
    assert "no broker is up" in headgate("topic", "orders").stderr
    started = reported("up")
    warden_pid, bootstrap = int(str(started["warden_pid"])), str(started["bootstrap"])
    processes = [psutil.Process(warden_pid), *psutil.Process(warden_pid).children(recursive=True)]
    try:
        assert headgate("status").stdout == f"up at {bootstrap}, Kafka 4.3, no topics\n"
        assert headgate("topic", "orders", "--partitions", "8").stdout == "made orders with 8 partitions\n"
        assert reported("status") == {"up": True, "bootstrap": bootstrap, "release": "4.3", "topics": {"orders": 8}}
        assert reported("status", "--bootstrap", bootstrap) == reported("status")
        again = headgate("up")
        assert (again.returncode, again.stderr) == (
            2,
            f"headgate: a broker is up already at {bootstrap}; stop it first with: headgate kafka down.\n",
        )
        broker_of(warden_pid).kill()
        eventually("the warden to have noticed", lambda: all_gone(processes), 30.0)
        gone = headgate("status")
        assert (gone.returncode, gone.stdout) == (
            1,
            f"the broker at {bootstrap} is gone: the broker was killed by SIGKILL; "
            "start another with: headgate kafka up.\n",
        )
        reached = headgate("status", "--bootstrap", bootstrap)
        assert (reached.returncode, reached.stdout) == (
            1,
            f"no Kafka broker can be reached ({bootstrap}: connection refused).\n",
        )
    finally:
        assert reported("down") == {"up": False, "stopped": False}
    assert reported("down") == {"up": False, "stopped": False}
    assert not list(tmp_path.glob("headgate-kafka-*"))


@pytest.mark.live
def test_a_broker_that_is_stopped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Other tests of this session may have a broker of their own.
    before = set(psutil.Process().children(recursive=True))
    with LocalKafka() as kafka:
        processes = [child for child in psutil.Process().children(recursive=True) if child not in before]
        assert [process for process in processes if "kafka.Kafka" in process.cmdline()]
        bootstrap = kafka.bootstrap
        with pytest.raises(InputError, match=r"^port \d+ of 127\.0\.0\.1 cannot be used: address already in use"):
            LocalKafka(port=addresses(bootstrap)[0][1]).start()
    assert all_gone(processes)
    assert not listens(*addresses(bootstrap)[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(InputError, match=f"port {port} is not possible; 1 to 65535 are."):
        LocalKafka(port)


def test_a_broker_that_does_not_run_has_no_address() -> None:
    with pytest.raises(EngineError, match="not running"):
        _ = LocalKafka().bootstrap


def test_a_missing_java_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="Kafka needs Java 17 or newer"):
        LocalKafka().start()
