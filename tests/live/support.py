"""What live tests share: waiting for something real, resizing and watching by hand, and the processes of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from headgate.core.contracts import Engine
from headgate.core.types import Decision, Instances, Outcome, Receipt, Sample, Verdict
from headgate.core.window import History

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
    for command, process in _java_processes("org.apache.spark.executor.CoarseGrainedExecutorBackend"):
        found[command[command.index("--executor-id") + 1]] = process
    return found


def executors_except(others: Collection[psutil.Process] = ()) -> list[psutil.Process]:
    """The executor processes of all applications on clusters of this process, without some."""
    found = _java_processes("org.apache.spark.executor.CoarseGrainedExecutorBackend")
    return [process for _, process in found if process not in others]


def master_process() -> psutil.Process:
    """The master of the cluster that this process has started."""
    ((_, process),) = _java_processes("org.apache.spark.deploy.master.Master")
    return process


def broker_process() -> psutil.Process:
    """The Kafka broker that this process has started."""
    ((_, process),) = _java_processes("kafka.Kafka")
    return process


@contextmanager
def suspended(process: psutil.Process) -> Iterator[None]:
    """Stop a process for a while: each of its threads, which takes a moment on a busy machine."""
    process.suspend()
    try:
        threads = Path(f"/proc/{process.pid}/task")
        eventually(
            "every thread has stopped",
            lambda: all((path / "stat").read_text().rpartition(")")[2].split()[0] == "T" for path in threads.iterdir()),
        )
        yield
    finally:
        process.resume()


def _java_processes(main_class: str) -> Iterator[tuple[list[str], psutil.Process]]:
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if main_class in command:
            yield command, process


class Watched:
    """An engine's readings as a loop sees them: each is completed from those before."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._history = History(engine.topology())

    def look(self) -> Sample | None:
        """The newest reading, now."""
        self._history.observe(self._engine.observe())
        return self._history.observations[-1].samples.get("job")

    def looks(self, seconds: float, every_s: float = 0.5) -> list[Sample]:
        """The readings of the next while."""
        found: list[Sample] = []
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            if (sample := self.look()) is not None:
                found.append(sample)
            time.sleep(every_s)
        return found
