"""Print the files that a reading passes from Spark to the journal, and from the journal to an explanation.

    .venv/bin/python scripts/trace_walk.py

Runs a job on a real Spark cluster on this machine, for as long as it takes the autoscaler to change its size once, and
records each file of the package in which code runs during a tick of the loop and during ``headgate explain``.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import headgate
from headgate.apps import LoadSource, working

PACKAGE = Path(headgate.__file__).parent
LOAD = "spike:base=20,peak=120,at=10s,width=80s"
POLICY = "reactive"
LONGEST_S = 120.0


class Passed:
    """The files of the package in which functions were called while it was switched on, in order of the first call."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of this thread."""
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            self.files.setdefault(Path(path).relative_to(PACKAGE).as_posix())


def trace(policy: str = POLICY) -> tuple[list[str], list[str]]:
    """Return the files that ticks of a live loop pass, and those that ``headgate explain`` passes on its journal."""
    ticks, explained = Passed(), Passed()
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.db"
        with headgate.LocalCluster(slots=4) as cluster, cluster.session("walk") as spark:
            spark.dataSource.register(LoadSource)
            events = spark.readStream.format("headgate-load").option("workload", LOAD).load()
            query = events.mapInArrow(working(0.02), events.schema).writeStream.format("noop").start()
            with headgate.autoscale(
                spark, "latency p95 < 10s", policy, executors=(1, 4), journal=journal, take_over=True, interval=2
            ) as scaler:
                resized = threading.Event()
                scaler.loop.tick = recorded(scaler.loop.tick, ticks)  # type: ignore[method-assign]
                scaler.watch(lambda _, decision: resized.set() if decision and not decision.is_hold else None)
                resized.wait(LONGEST_S)
                query.awaitTermination(10)
        from headgate.cli.app import app

        with explained.recording(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            app(["explain", str(journal)])
    return list(ticks.files), list(explained.files)


def recorded(call: Callable[[], object], passed: Passed) -> Callable[[], object]:
    """Return a function that records what the given one passes."""

    def recording() -> object:
        with passed.recording():
            return call()

    return recording


def main() -> None:
    """Print both walks and their sizes."""
    ticks, explained = trace(*sys.argv[1:])
    for title, files in (("a tick", ticks), ("headgate explain", explained)):
        print(f"{title}: {len(files)} files")
        print("".join(f"  {name}\n" for name in sorted(files)))
    both = {*ticks, *explained}
    lines = sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in both)
    print(f"in all: {len(both)} files, {lines} lines")


if __name__ == "__main__":
    main()
