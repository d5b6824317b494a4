"""Work on several processes ends with its caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from headgate.lab.processes import in_processes

CALLER = """
import sys, time
from headgate.lab.processes import in_processes

if __name__ == "__main__":
    print("begun", flush=True)
    try:
        for _, slept in in_processes(time.sleep, [600] * 4, 2):
            pass
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_everything_comes_back_with_its_number() -> None:
    assert dict(in_processes(abs, [-3, -2, -1], 2)) == {0: 3, 1: 2, 2: 1}


def test_nothing_to_do_is_done() -> None:
    assert list(in_processes(abs, [])) == []


def test_what_fails_is_raised_and_no_process_is_left() -> None:
    before = set(active_children())
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["1", "one"], 2))
    assert set(active_children()) <= before


def test_an_interrupt_ends_what_is_not_done_and_is_reported_by_one_process_only() -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", CALLER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert asking.stdout is not None
    assert asking.stdout.readline() == "begun\n"
    time.sleep(2)  # Its processes are starting, or at work: an interrupt is to be reported at any time.
    os.killpg(asking.pid, signal.SIGINT)  # As a terminal does: to all of them.
    assert asking.communicate(timeout=60) == ("interrupted\n", "")
