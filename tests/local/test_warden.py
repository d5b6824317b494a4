"""The warden: servers that come and go, and servers that are started again when they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from headgate.local.server_plan import ServerProcess
from headgate.local.supervisor import MOST_FAILURES
from tests.live.support import eventually

SLEEPS = "import time; time.sleep(600)"
PROGRAM = """
import sys
from pathlib import Path
from headgate.local.warden import Warden
from tests.local.test_warden import Folder
sys.exit(Warden(Folder(*sys.argv[1:])).run())
"""


@dataclass(frozen=True)
class Folder:
    """A server that is always there, and one for each file of a folder; what the file holds is what it does."""

    directory: str
    last_words: str

    def servers(self) -> Iterator[ServerProcess]:
        yield ServerProcess("always", (sys.executable, "-c", SLEEPS), lambda: True, os.environ)

    def wanted(self) -> Iterator[ServerProcess]:
        for path in sorted(Path(self.directory, "wanted").iterdir()):
            command = (sys.executable, "-c", path.read_text())
            yield ServerProcess(path.name, command, None, os.environ, is_restarted=True)


@contextmanager
def running_warden(tmp_path: Path) -> Iterator[tuple[psutil.Process, Path, Path]]:
    """A warden, the folder of the wanted servers, and the file of its last message."""
    folder, message_file = tmp_path / "servers", tmp_path / "ended"
    (folder / "wanted").mkdir(parents=True)
    command = [sys.executable, "-c", PROGRAM, str(folder), str(message_file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b'{"error": null}\n'
            yield psutil.Process(process.pid), folder / "wanted", message_file
        finally:
            process.terminate()
            process.wait(20)
    assert not folder.exists()


def want(wanted: Path, program: str) -> None:
    """Have a server that runs a program; the file is there as a whole or not at all."""
    unfinished = wanted.parent / "unfinished"
    unfinished.write_text(program)
    unfinished.rename(wanted / "sleeper")


def reported(message_file: Path) -> str:
    return message_file.read_text() if message_file.exists() else ""


def children(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if child.status() != psutil.STATUS_ZOMBIE]


def test_a_server_that_is_wanted_comes_and_one_that_is_not_goes(tmp_path: Path) -> None:
    with running_warden(tmp_path) as (process, wanted, _):
        (always,) = children(process)
        want(wanted, SLEEPS)
        eventually("it to come", lambda: len(children(process)) == 2, 10.0)
        (wanted / "sleeper").unlink()
        eventually("it to go", lambda: children(process) == [always], 10.0)


def test_a_server_that_was_killed_is_started_again(tmp_path: Path) -> None:
    with running_warden(tmp_path) as (process, wanted, message_file):
        want(wanted, SLEEPS)
        eventually("it to come", lambda: len(children(process)) == 2, 10.0)
        (_, killed) = sorted(children(process), key=psutil.Process.create_time)
        killed.kill()
        eventually("another one", lambda: len(set(children(process)) - {killed}) == 2, 10.0)
        assert not message_file.exists()


def test_a_server_that_ends_again_and_again_is_the_end_of_all(tmp_path: Path) -> None:
    with running_warden(tmp_path) as (process, wanted, message_file):
        want(wanted, "print('no such thing'); exit(3)")
        message = "the sleeper ended with exit code 3 6 times in a row: no such thing"
        eventually("the warden to give up", lambda: reported(message_file) == message, 10.0 + MOST_FAILURES)
        assert process.wait(20) == 1


def test_the_end_of_a_server_that_is_not_started_again_is_the_end_of_all(tmp_path: Path) -> None:
    with running_warden(tmp_path) as (process, _, message_file):
        children(process)[0].kill()
        eventually("the warden to end", lambda: reported(message_file) == "the always was killed by SIGKILL", 10.0)


def test_what_a_server_left_in_a_session_of_its_own_ends_with_the_warden(tmp_path: Path) -> None:
    """As containers of YARN do, which their node starts in sessions of their own."""
    detached = (
        "import subprocess, sys, time; from pathlib import Path; "
        f"left = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], start_new_session=True); "
        "Path('left').write_text(str(left.pid)); time.sleep(600)"
    )
    with running_warden(tmp_path) as (_, wanted, _):
        want(wanted, detached)
        pid_file = wanted.parent / "left"
        eventually("it to start another", lambda: pid_file.exists() and bool(pid_file.read_text()), 10.0)
        left = psutil.Process(int(pid_file.read_text()))
        assert left.is_running()
    eventually("it to be gone", lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, 10.0)
