"""Steps all jobs, each at its time, on one thread: a thousand jobs need no thousand threads.

A step that took too long is not made up for: the next one of the job comes at its regular time. Those times
follow from the clock and the job's name alone, spread over its interval: not all jobs decide at once, and a service
that takes over a job continues at the same times, without making a step twice.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headgate.core.types import Instant
from headgate.runtime.loop import Clock
from headgate.service.jobs import ServedJob

logger = logging.getLogger("headgate")

LONGEST_WAIT_S = 1.0
"""How often it checks whether it may decide."""
SHORTEST_WAIT_S = 0.001
"""Between two looks for what is due; not to turn in circles where a step fails at once."""
Ticked = Callable[[ServedJob, Instant, Instant, Instant], None]
"""Called with a job, and when its step was due, began and ended."""


@dataclass(slots=True)
class _Due:
    job: ServedJob
    at_s: Instant


def next_step_s(job: str, interval_s: float, now: Instant) -> Instant:
    """Return when a job is stepped next, after now.

    >>> next_step_s("clicks", 10.0, 1000.0) - next_step_s("clicks", 10.0, 990.0)
    10.0
    """
    phase_s = phase_of(job, interval_s)
    return phase_s + interval_s * (math.floor((now - phase_s) / interval_s) + 1)


def phase_of(job: str, interval_s: float) -> float:
    """Return how far into its interval a job is stepped: always the same for a name."""
    drawn = hashlib.blake2s(job.encode(), digest_size=4).digest()
    return interval_s * int.from_bytes(drawn) / 2**32


class Scheduler:
    """``may_decide`` is called before each step: a service that is not the leader makes none."""

    def __init__(self, clock: Clock, may_decide: Callable[[], bool] = lambda: True) -> None:
        self._clock = clock
        self._may_decide = may_decide
        self._lock = threading.Lock()
        self._due: dict[str, _Due] = {}
        self._heap: list[tuple[Instant, int, str]] = []
        self._count = 0
        """Orders the jobs that are due at the same time."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.late_s = 0.0
        """How late the newest step was."""
        self.rounds = 0
        self.ticked: list[Ticked] = []
        """Called after each step."""
        self.chores: list[Callable[[], None]] = []
        """Called about once a second, such as to check whether a file has changed."""

    def add(self, job: ServedJob) -> None:
        """Step a job from now on; it replaces one of the same name."""
        with self._lock:
            self._put(job, next_step_s(job.name, job.spec.interval_s, self._clock.now()))

    def remove(self, name: str) -> None:
        with self._lock:
            self._due.pop(name, None)

    def _put(self, job: ServedJob, at_s: Instant) -> None:
        self._due[job.name] = _Due(job, at_s)
        self._count += 1
        heapq.heappush(self._heap, (at_s, self._count, job.name))

    def step(self) -> int:
        """Step every job that is due, and return their number."""
        self.rounds += 1
        for chore in self.chores:
            self._try(chore, "a task between decisions")
        stepped = 0
        while self._may_decide() and (job := self._next_due()) is not None:
            began_s = self._clock.now()
            self._try(job.tick, f"job {job.name}")
            for listener in self.ticked:
                self._try(partial(listener, job, began_s - self.late_s, began_s, self._clock.now()), "a listener")
            stepped += 1
        return stepped

    def _next_due(self) -> ServedJob | None:
        with self._lock:
            now = self._clock.now()
            while self._heap and self._heap[0][0] <= now:
                at_s, _, name = heapq.heappop(self._heap)
                due = self._due.get(name)
                if due is None or due.at_s != at_s:
                    continue  # It was removed, or replaced by another.
                interval_s = due.job.spec.interval_s
                self.late_s = now - at_s
                self._put(due.job, at_s + interval_s * (1 + (now - at_s) // interval_s))
                return due.job
            return None

    @staticmethod
    def _try(step: Callable[[], object], what: str) -> None:
        try:
            step()
        except Exception:
            # An exception of one job must not stop the others.
            logger.exception("%s could not be stepped", what)

    # ------------------------------------------------------------------------------------------------------ lifecycle

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def overdue_s(self) -> float:
        """Return how late the most overdue job is; 0 if none is, or if this service may not decide."""
        with self._lock:
            if not self._due or not self._may_decide():
                return 0.0
            return max(0.0, self._clock.now() - min(due.at_s for due in self._due.values()))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="headgate-scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the current step and make no more. Calling it twice is fine."""
        self._stop.set()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            # Whatever goes wrong, the thread goes on: without it no job would be decided on any more.
            self._try(self.step, "what is due")
            now = self._clock.now()
            with self._lock:
                next_s = self._heap[0][0] if self._heap else now + LONGEST_WAIT_S
            self._clock.wait_until(min(max(next_s, now + SHORTEST_WAIT_S), now + LONGEST_WAIT_S), self._stop)
