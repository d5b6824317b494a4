"""A driver that was killed and is started again takes its place back at once; nobody else takes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.agent.agent import HttpController, LastAgents
from headgate.core.errors import ControllerAwayError
from tests.service.several import REPORT, SECRET, Services

KILLED = """
import os, sys
from headgate.agent.agent import HttpController, LastAgents
from tests.service.several import REPORT, SECRET
HttpController(sys.argv[1], SECRET, "clicks", last_agents=LastAgents("clicks")).report("count", REPORT)
os._exit(9)
"""


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a service for which no time passes, so that no agent is ever silent."""
    with ExitStack() as stack:
        services = Services(stack, 1)
        services.let_lead(0)
        yield services.urls[0]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "headgate" / "agents"


def test_a_driver_that_was_killed_takes_its_place_back_at_once_and_a_stranger_does_not(url: str, state: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == 9
    (file,) = state.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    second, third = replace(REPORT, agent="second"), replace(REPORT, agent="third")
    with HttpController(url, SECRET, "clicks") as stranger:
        for report in (second, replace(second, replaces="guessed")):
            with pytest.raises(ControllerAwayError, match="another agent reports for 'count'"):
                stranger.report("count", report)
    with HttpController(url, SECRET, "clicks", last_agents=LastAgents("clicks")) as restarted:
        restarted.report("count", third)
        assert LastAgents("clicks").former("count") is None, "its process lives"
        restarted.report("count", replace(third, leaving=True))
    assert not list(state.iterdir()), "nothing is left of an agent that left"


@pytest.mark.parametrize(
    "changes", [{}, {"host": "elsewhere"}, {"pid": 1}, {"pid": "many"}, {"version": 2}, {"agent": None, "pid": None}]
)
def test_who_is_not_known_to_be_gone_from_this_machine_is_not_replaced(state: Path, changes: dict[str, Any]) -> None:
    last = LastAgents("clicks")
    assert last.former("count") is None
    last.remember("count", "me")
    (file,) = state.iterdir()
    found = json.loads(file.read_text())
    file.write_text(json.dumps({**found, "process": "another", **changes}))
    assert last.former("count") == (None if changes else "me")
    file.write_text("[]")
    assert last.former("count") is None
