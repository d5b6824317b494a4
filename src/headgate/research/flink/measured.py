"""Measurements of a Flink job from outside: its slots by Flink's REST API, and its results by the broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import EngineError
from headgate.engines.flink.graph import graph_of
from headgate.engines.flink.rest import FlinkRest
from headgate.local.records import timestamped_values

Times = NDArray[np.float64]


@dataclass(frozen=True)
class SinkTruth:
    """By number of the record: when it was due, and when its result arrived (infinity: never).

    >>> sunk = [(b'{"number":1,"at_ms":2000}', 2.5), (b'{"number":0,"at_ms":1000}', 9.0)]
    >>> truth = SinkTruth.of([*sunk, sunk[0]], 2)
    >>> truth.delays_s.tolist(), truth.missing, truth.doubled
    ([8.0, 0.5], 0, 1)
    """

    due_s: Times
    done_s: Times
    doubled: int
    """Repeated results: of records since the last checkpoint, when a job was restarted."""

    @classmethod
    def of(cls, results: Iterable[tuple[bytes, float]], total: int) -> SinkTruth:
        due_s, done_s = np.full(total, np.nan), np.full(total, np.inf)
        count = 0
        for value, at_s in results:
            found = json.loads(value)
            number = found["number"]
            due_s[number] = found["at_ms"] / 1000
            done_s[number] = min(done_s[number], at_s)
            count += 1
        return cls(due_s, done_s, count - int(np.isfinite(done_s).sum()))

    @classmethod
    def of_topic(cls, bootstrap: str, topic: str, total: int) -> SinkTruth:
        return cls.of(timestamped_values(bootstrap, topic), total)

    @property
    def missing(self) -> int:
        return int(np.isinf(self.done_s).sum())

    @property
    def delays_s(self) -> Times:
        return self.done_s - self.due_s

    @property
    def last_s(self) -> float:
        """The time of the last result."""
        return float(self.done_s[np.isfinite(self.done_s)].max(initial=0.0))

    def judged(self, from_s: float) -> Times:
        """Return the delays of records due from this time on; a record without a result has an infinite delay."""
        return np.where(np.isinf(self.done_s), np.inf, self.delays_s)[~(self.due_s < from_s)]

    def longest(self, began_s: float, within_s: float) -> Iterator[tuple[float, float]]:
        """Yield the longest delay of the records due in each span of time, by its beginning after ``began_s``."""
        known = np.isfinite(self.done_s)
        place = ((self.due_s[known] - began_s) / within_s).astype(np.int64)
        delays_s = self.delays_s[known]
        for index in np.unique(place):
            yield float(within_s * index), round(float(delays_s[place == index].max()), 2)


EVERY_S = 0.5


@dataclass(frozen=True)
class JobSlots:
    """The TaskManagers, slots and sizes of a job from a time on."""

    at_s: float
    task_managers: int
    slots: int
    """Slots of the job; during a restart as many as before."""
    sizes: dict[str, int]
    """Subtasks of each operator; none during a restart."""


class SlotWatch:
    """Samples a cluster with a single job, on a thread, from ``start`` to ``stop``."""

    def __init__(self, url: str, job: str, now: Callable[[], float] = time.time) -> None:
        self._rest = FlinkRest(url)
        self._job = job
        self._now = now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot-watch", daemon=True)
        self.samples: list[JobSlots] = []

    def start(self) -> SlotWatch:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._rest.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            # During a restart Flink may not answer in time; the last sample stays valid.
            with suppress(EngineError):
                self.samples.append(self._sample())
            self._stop.wait(EVERY_S)

    def _sample(self) -> JobSlots:
        managers, job = self._rest.task_managers(), self._rest.job(self._job)
        sizes: dict[str, int] = {}
        if job.is_at_work and job.plan.nodes:
            graph = graph_of(job)
            sizes = graph.sizes(job)
            slots = graph.slots(sizes)
        else:
            slots = self.samples[-1].slots if self.samples else 0
        return JobSlots(self._now(), len(managers), slots, sizes)


def changes(samples: Sequence[JobSlots]) -> Iterator[JobSlots]:
    """Yield the samples that differ from the one before; during a restart the slots and sizes count as unchanged."""
    last: JobSlots | None = None
    for sample in samples:
        now = (
            sample
            if sample.sizes or last is None
            else JobSlots(sample.at_s, sample.task_managers, last.slots, last.sizes)
        )
        if last is None or (now.task_managers, now.slots, now.sizes) != (last.task_managers, last.slots, last.sizes):
            yield now
        last = now


def seconds(course: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """Return the integral of a step function between two times.

    >>> seconds([(0.0, 1.0), (10.0, 3.0)], 5.0, 15.0)
    20.0
    """
    steps = pairwise([*course, (max(to_s, course[-1][0]), 0.0)]) if course else iter(())
    return sum(value * max(0.0, min(until_s, to_s) - max(at_s, from_s)) for (at_s, value), (until_s, _) in steps)
