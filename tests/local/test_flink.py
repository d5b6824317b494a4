"""The local Flink cluster: it starts for real, its TaskManagers come and go, and nothing of it is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.flink import FlinkCluster, LocalFlink, leave_taskmanager, want_taskmanager, wanted_taskmanagers
from tests.live.support import eventually
from tests.local.processes import all_gone, is_alive


@pytest.mark.parametrize(
    ("taskmanagers", "slots", "message"),
    [(-1, 1, "a cluster with -1 TaskManagers is not possible"), (1, 0, "a TaskManager with 0 slots is not possible")],
)
def test_a_size_that_cannot_be_is_refused(taskmanagers: int, slots: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LocalFlink(taskmanagers, slots)


def test_a_folder_without_flink_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"there is no Flink in {tmp_path}; a folder is needed whose lib has"):
        LocalFlink(home=tmp_path).start()


def test_a_cluster_that_does_not_run_has_no_address() -> None:
    with pytest.raises(EngineError, match="not running"):
        _ = LocalFlink().url


def test_the_name_of_a_taskmanager_is_not_given_twice(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert [want_taskmanager(directory) for _ in range(10)] == [f"taskmanager-{number}" for number in range(1, 11)]
    leave_taskmanager(directory, "taskmanager-10")
    leave_taskmanager(directory, "taskmanager-2")
    assert want_taskmanager(directory) == "taskmanager-11"
    assert wanted_taskmanagers(directory) == [f"taskmanager-{number}" for number in (1, *range(3, 10), 11)]


def test_nothing_that_answers_is_reported_with_the_address() -> None:
    with pytest.raises(EngineError, match=r"no Flink cluster answers at http://127\.0\.0\.1:9: .*refused"):
        FlinkCluster.at("http://127.0.0.1:9/")


def server_of(warden_pid: int, word: str) -> psutil.Process:
    """The server of a warden whose command line has a word."""
    alive = [child for child in psutil.Process(warden_pid).children() if is_alive(child)]
    (found,) = [process for process in alive if word in " ".join(process.cmdline())]
    return found


@pytest.mark.live
def test_taskmanagers_of_a_detached_cluster_come_and_go_and_what_is_killed_comes_back(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headgate", "flink", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert headgate("status").stdout == "no Flink cluster is up; start one with: headgate flink up\n"
    started = json.loads(headgate("up", "--taskmanagers", "1", "--slots", "2", "--json").stdout)
    warden_pid, url = started["warden_pid"], started["url"]
    processes = [psutil.Process(warden_pid), *psutil.Process(warden_pid).children(recursive=True)]
    try:
        assert started["taskmanagers"] == [{"id": "taskmanager-1", "slots": 2, "free_slots": 2}]
        again = headgate("up")
        assert (again.returncode, again.stderr) == (
            2,
            f"headgate: a Flink cluster is up already at {url}; stop it first with: headgate flink down.\n",
        )
        cluster = FlinkCluster.at(f"{url}/")
        assert cluster.add_taskmanager() == "taskmanager-2"
        cluster.await_taskmanagers(["taskmanager-1", "taskmanager-2"])
        assert headgate("status").stdout == f"up at {url}, 2 TaskManagers, 4 of 4 slots free\n"
        removed = server_of(warden_pid, "taskmanager-1")
        cluster.remove_taskmanager("taskmanager-1")
        cluster.await_taskmanagers(["taskmanager-2"])
        eventually("its process to be gone", lambda: not is_alive(removed), 20.0)
        with pytest.raises(InputError, match="no TaskManager 'taskmanager-1' to remove; there are: taskmanager-2"):
            cluster.remove_taskmanager("taskmanager-1")

        killed = [server_of(warden_pid, word) for word in ("taskmanager-2", "StandaloneSession")]
        for process in killed:
            process.kill()
        eventually("both to have been noticed", lambda: all_gone(killed), 10.0)
        eventually("both to be back", lambda: _is_back(cluster, "taskmanager-2"), 90.0)
        processes += psutil.Process(warden_pid).children(recursive=True)
        server_of(warden_pid, "ZooKeeper").kill()
        eventually("the warden to have noticed", lambda: all_gone(processes), 30.0)
        gone = headgate("status")
        reason = f"the Flink cluster at {url} is gone: the coordinator was killed by SIGKILL; "
        assert (gone.returncode, gone.stdout) == (1, f"{reason}start another with: headgate flink up.\n")
    finally:
        down = json.loads(headgate("down", "--json").stdout)
    assert down == {"up": False, "stopped": False}
    assert not list(tmp_path.glob("headgate-flink-*"))


def _is_back(cluster: FlinkCluster, name: str) -> bool:
    try:
        return [taskmanager.id for taskmanager in cluster.taskmanagers()] == [name]
    except EngineError:
        return False
