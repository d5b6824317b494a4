"""Ctrl-C in the midst of a compiled function is an interrupt, and no failure of the function."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from headgate.runtime.interrupts import interrupts_deferred

IN_A_COMPILED_FUNCTION = """
import signal, sys, time
from typing import NamedTuple
import numba
from headgate.core.objective import parse_objective
from headgate.policies.frame.base import register
from headgate.policies.static import Static
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload

class Found(NamedTuple):
    count: int

@numba.njit
def found(count):
    return Found(count)

def interrupt(frame, event, argument):
    if frame.f_code.co_name == "_numba_unpickle":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

@register
class Compiled(Static):
    name = "compiled"

    def decide(self, now, window):
        sys.setprofile(interrupt)
        print(found(2))
        time.sleep(90)
        return super().decide(now, window)

found(1)
try:
    simulate(
        "compiled",
        parse_workload("constant:1"),
        objective=parse_objective("latency p95 < 10s"),
        service_rate_per_s=5.0,
        seconds=60.0,
    )
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_in_a_compiled_function_ends_a_simulation_that_python_called() -> None:
    """It ended the whole process, or was reported as a failure of the policy, and the simulation continued."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_COMPILED_FUNCTION], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Found(count=2)\ninterrupted\n", "", 0)


def test_a_programs_own_way_with_interrupts_stays() -> None:
    usual = signal.getsignal(signal.SIGINT)
    with interrupts_deferred():
        assert signal.getsignal(signal.SIGINT) is not usual
    assert signal.getsignal(signal.SIGINT) is usual
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with interrupts_deferred():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)
    seen = []

    def elsewhere() -> None:
        with interrupts_deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [usual], "only the main thread can change it"
