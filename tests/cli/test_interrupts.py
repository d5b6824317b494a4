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


def run(happens: str, then_s: int) -> subprocess.CompletedProcess[str]:
    code = IN_A_CALLBACK.format(happens=happens, then_s=then_s)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)


def test_an_interrupt_inside_a_callback_is_not_lost() -> None:
    """Nor does it wait for the end of what is waited for: the time limit is shorter than that."""
    done = run("signal.raise_signal(signal.SIGINT)", then_s=90)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_what_else_is_ignored_is_told_as_ever() -> None:
    done = run("1 / 0", then_s=0)
    assert done.stdout == ""
    assert "ZeroDivisionError" in done.stderr
