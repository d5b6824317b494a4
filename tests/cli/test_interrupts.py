from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from headgate.cli.progress import message_when_stopped

IN_A_CALLBACK = """
import signal, time, weakref
from headgate.runtime.interrupts import interrupts_delivered

class Thing: ...

try:
    with interrupts_delivered():
        thing = Thing()
        watched = weakref.ref(thing, lambda _: {happens})
        del thing
        time.sleep({then_s})
except KeyboardInterrupt:
    print("interrupted")
"""


def run(happens: str, then_s: int) -> subprocess.CompletedProcess[str]:
    return run_code(IN_A_CALLBACK.format(happens=happens, then_s=then_s))


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)


def test_an_interrupt_inside_a_callback_is_not_lost() -> None:
    """Nor does it wait for the end of what is waited for: the time limit is shorter than that."""
    done = run("signal.raise_signal(signal.SIGINT)", then_s=90)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_the_list_of_saved_work_is_made_when_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, message_when_stopped(lambda: "saved: a.json"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "headgate: stopped; saved: a.json.\n"


def test_other_ignored_exceptions_are_reported_as_usual() -> None:
    done = run("1 / 0", then_s=0)
    assert done.stdout == ""
    assert "ZeroDivisionError" in done.stderr
