"""What a job had of its cluster over time, looked at from outside: asked of Flink, not of who scales it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from headgate.core.errors import EngineError
from headgate.engines.flink.graph import graph_of
from headgate.engines.flink.rest import FlinkRest

EVERY_S = 0.5


@dataclass(frozen=True)
class Had:
    """What there was from a moment on."""

    at_s: float
    task_managers: int
    slots: int
    """That the job kept for itself; while it is started again, as many as before."""
    sizes: dict[str, int]
    """Subtasks of each operator; none while it is started again."""


class SlotWatch:
    """Looks at a cluster with one job, on a thread, from ``start`` to ``stop``."""

    def __init__(self, url: str, job: str, now: Callable[[], float] = time.time) -> None:
        self._rest = FlinkRest(url)
        self._job = job
        self._now = now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot-watch", daemon=True)
        self.seen: list[Had] = []

    def start(self) -> SlotWatch:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._rest.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            # Between two lives Flink may not answer in time; what was seen last goes on to count.
            with suppress(EngineError):
                self.seen.append(self._had())
            self._stop.wait(EVERY_S)

    def _had(self) -> Had:
        managers, job = self._rest.task_managers(), self._rest.job(self._job)
        sizes: dict[str, int] = {}
        if job.is_at_work and job.plan.nodes:
            graph = graph_of(job)
            sizes = graph.sizes(job)
            slots = graph.slots(sizes)
        else:
            slots = self.seen[-1].slots if self.seen else 0
        return Had(self._now(), len(managers), slots, sizes)


def changes(seen: Sequence[Had]) -> Iterator[Had]:
    """From when on there was something else; what a restart hides counts as what was before."""
    last: Had | None = None
    for one in seen:
        now = one if one.sizes or last is None else Had(one.at_s, one.task_managers, last.slots, last.sizes)
        if last is None or (now.task_managers, now.slots, now.sizes) != (last.task_managers, last.slots, last.sizes):
            yield now
        last = now


def seconds(course: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """What a number that holds from each moment to the next comes to between two moments.

    >>> seconds([(0.0, 1.0), (10.0, 3.0)], 5.0, 15.0)
    20.0
    """
    steps = pairwise([*course, (max(to_s, course[-1][0]), 0.0)]) if course else iter(())
    return sum(value * max(0.0, min(until_s, to_s) - max(at_s, from_s)) for (at_s, value), (until_s, _) in steps)
