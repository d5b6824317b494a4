"""Servers that outlive their starter are found by their state file, and missed when they are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate.core.errors import InputError, OutputError
from headgate.local.servers import Detached, ServerState


@dataclass(frozen=True)
class MillState(ServerState):
    address: str = "127.0.0.1:1"


@pytest.fixture
def mill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Detached[MillState]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Detached("mill", "mill", MillState)


def written(mill: Detached[MillState], state: MillState) -> None:
    mill.file.parent.mkdir(parents=True, exist_ok=True)
    mill.file.write_text(json.dumps(vars(state)))


def test_none_is_up_at_first(mill: Detached[MillState]) -> None:
    assert mill.status() is None
    assert mill.down() is None


def test_one_that_is_gone_is_reported_until_it_is_put_down(mill: Detached[MillState], tmp_path: Path) -> None:
    # This very process is alive, but it is no warden.
    written(mill, MillState(os.getpid(), str(tmp_path / "gone")))
    mill.last_words.write_text("the wheel ended with exit code 3: it broke")
    for ask in (mill.status, mill.status, mill.down):
        found = ask()
        assert found is not None
        assert found.gone == (
            "the mill at 127.0.0.1:1 is gone: the wheel ended with exit code 3: it broke; "
            "start another with: headgate mill up."
        )
    assert mill.status() is None


def test_what_a_killed_warden_left_is_cleared_away(mill: Detached[MillState], tmp_path: Path) -> None:
    directory = tmp_path / "mill"
    directory.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=directory) as orphan:
        written(mill, MillState(os.getpid(), str(directory)))
        found = mill.status()
        assert found is not None
        assert "its warden was killed" in str(found.gone)
        orphan.wait(10)
    assert not directory.exists()


class Mill:
    """One that is started in name only."""

    def __init__(self, directory: Path) -> None:
        self.state = MillState(os.getpid(), str(directory))
        self.was_let_go = self.was_stopped = False

    def start(self, *, detached: bool) -> MillState:
        assert detached
        return self.state

    def detach(self) -> None:
        self.was_let_go = True

    def stop(self) -> None:
        self.was_stopped = True


def test_another_can_be_started_after_one_that_is_gone(mill: Detached[MillState], tmp_path: Path) -> None:
    written(mill, MillState(os.getpid(), str(tmp_path / "gone")))
    mill.last_words.write_text("it broke")
    another = Mill(tmp_path / "new")
    assert mill.up(another) == another.state
    assert another.was_let_go
    assert json.loads(mill.file.read_text()) == vars(another.state)
    assert not mill.last_words.exists()


def test_a_state_file_that_cannot_be_read_is_reported(mill: Detached[MillState]) -> None:
    mill.file.parent.mkdir(parents=True)
    mill.file.write_text("{")
    with pytest.raises(InputError, match=r"of the mill cannot be read.*delete it"):
        mill.status()


def test_a_state_folder_that_cannot_be_written_is_reported(
    mill: Detached[MillState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    with pytest.raises(InputError, match=f"{os.devnull}/headgate/mill.json cannot be written: not a directory"):
        mill.up(Mill(tmp_path))


def test_one_that_cannot_be_written_down_is_stopped(mill: Detached[MillState], tmp_path: Path) -> None:
    class Unlucky(Mill):
        def start(self, *, detached: bool) -> MillState:
            mill.file.symlink_to("/dev/full")
            return super().start(detached=detached)

    another = Unlucky(tmp_path)
    with pytest.raises(OutputError, match=r"mill\.json cannot be written: no space left on device\.$"):
        mill.up(another)
    assert another.was_stopped
    assert not another.was_let_go
    assert mill.status() is None
