"""Supervised processes: those that end by themselves are restarted, and those that are stopped are gone."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.errors import EngineError
from headgate.local import supervisor
from headgate.local.supervisor import ProcessEnd, ProcessSupervisor, SupervisedProcess, python_process

MODULE = "tests.local.short_lived"


def eventually(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def starts(folder: Path) -> int:
    file = folder / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def child(folder: Path, lasts_s: float = 60.0, code: int = 0) -> SupervisedProcess:
    plan = {"starts": str(folder / "starts"), "lasts_s": lasts_s, "code": code}
    return python_process("job", MODULE, plan, folder)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(Path(__file__).parents[2])


def test_a_killed_process_is_restarted(tmp_path: Path) -> None:
    ends: list[ProcessEnd] = []
    running = ProcessSupervisor(ends.append)
    running.start(child(tmp_path))
    eventually(lambda: starts(tmp_path) == 1)
    pid = running["job"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        running.check()
        return starts(tmp_path) == 2

    eventually(is_back)
    assert [(end.name, end.reason) for end in ends] == [("job", "was killed by SIGKILL")]
    running.stop()


def test_a_process_that_keeps_failing_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    running = ProcessSupervisor(lambda end: None)
    running.start(child(tmp_path, lasts_s=0.0, code=3))

    def keep_checking() -> None:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            running.check()
            time.sleep(0.02)

    with pytest.raises(EngineError, match="job ended with exit code 3 6 times in a row"):
        keep_checking()
    assert starts(tmp_path) == 6


def test_a_stopped_process_is_gone_and_not_restarted(tmp_path: Path) -> None:
    running = ProcessSupervisor(lambda end: None)
    running.start(child(tmp_path))
    eventually(lambda: starts(tmp_path) == 1)
    pid = running["job"].pid
    assert pid is not None
    running.stop()
    running.check()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert starts(tmp_path) == 1


def test_processes_that_ignore_the_request_are_killed_after_one_common_wait(tmp_path: Path) -> None:
    running = ProcessSupervisor(lambda end: None)
    pids = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        plan = {"starts": str(tmp_path / name / "starts"), "lasts_s": 60.0, "code": 0}
        running.start(python_process(name, MODULE, plan, tmp_path / name))
        pids.append(running[name].pid or 0)
        os.kill(pids[-1], signal.SIGSTOP)
    began_s = time.monotonic()
    running.stop(within_s=3.0)
    assert time.monotonic() - began_s < 6.0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_only_the_owner_can_read_the_plan_of_a_process(tmp_path: Path) -> None:
    child(tmp_path)
    assert stat.S_IMODE((tmp_path / "job.json").stat().st_mode) == 0o600
