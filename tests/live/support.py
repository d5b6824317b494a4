"""What live tests share: waiting for something real, resizing by hand, and the processes of executors."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from headgate.core.contracts import Engine
from headgate.core.types import Decision, Instances, Outcome, Receipt, Verdict

TIMEOUT_S = 90.0


def eventually(what: str, holds: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Wait for something that the cluster does in its own time."""
    until_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.2)


def decision(instances: Instances, target: int) -> Decision:
    verdict = Verdict("job", instances.planned, target, target, "test", "the test asks for it")
    return Decision(0.0, "test", {"job": verdict})


def size(engine: Engine) -> Instances:
    return engine.observe().instances["job"]


def resize(engine: Engine, target: int) -> Receipt:
    """Ask for a size and keep applying it, as the loop does, until it is there."""
    receipt = engine.apply(decision(size(engine), target))
    assert receipt.outcome in (Outcome.ACCEPTED, Outcome.UNCHANGED)
    settle(engine)
    return receipt


def settle(engine: Engine) -> None:
    """Keep applying the size that is planned, as the loop does, until it is there."""
    planned = size(engine).planned

    def reached() -> bool:
        engine.apply(decision(size(engine), planned))
        return size(engine) == Instances(planned, planned, planned) and len(executor_processes()) == planned

    eventually(f"{planned} executors", reached)


def executor_processes() -> dict[str, psutil.Process]:
    """The executor processes on this machine that descend from a cluster of this process, by executor id."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
            found[command[command.index("--executor-id") + 1]] = process
    return found
