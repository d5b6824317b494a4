from __future__ import annotations

import subprocess
import sys

IN_A_CALLBACK = """
import signal, time, weakref
from headgate.cli.interrupts import keep_interrupts

class Thing: ...

keep_interrupts()
thing = Thing()
watched = weakref.ref(thing, lambda _: {happens})
try:
    del thing
    time.sleep({then_s})
except KeyboardInterrupt:
    print("interrupted")
"""

IN_A_COMPILED_FUNCTION = """
import signal, sys, time
from typing import NamedTuple
import numba
from headgate.cli.interrupts import keep_interrupts

class Found(NamedTuple):
    count: int

@numba.njit
def found(count):
    return Found(count)

def interrupt(frame, event, argument):
    if frame.f_code.co_name == "_numba_unpickle":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

keep_interrupts()
found(1)
try:
    sys.setprofile(interrupt)
    print(found(2))
    time.sleep(90)
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


def test_an_interrupt_is_no_failure_of_a_compiled_function() -> None:
    """One in ten was: autopilot was said to have failed, and the simulation went on."""
    done = run_code(IN_A_COMPILED_FUNCTION)
    assert (done.stdout, done.stderr) == ("Found(count=2)\ninterrupted\n", "")


def test_what_else_is_ignored_is_told_as_ever() -> None:
    done = run("1 / 0", then_s=0)
    assert done.stdout == ""
    assert "ZeroDivisionError" in done.stderr
